// Softmax attention of queries over keys and values, which never holds tokens x tokens of anything.
//
// Where one of LibTorch's own operators can, that does it (Dao et al., "FlashAttention", 2022);
// they keep the output and a sum per query. Else scores are made a piece of the queries at a time,
// and made again in the backward. Heads may share keys and values (Ainslie et al., "GQA", 2023).
// Segments of rows cost the sum of their squares: CUDA's operators take them together, all else
// takes one at a time.

#ifndef SHOAL_MODEL_BLOCKS_ATTENTION_CORE_H_
#define SHOAL_MODEL_BLOCKS_ATTENTION_CORE_H_

#include "model/blocks/dropout_mask.h"
#include "model/blocks/fused_attention.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class AttentionCore {
 public:
  // Queries whose scores are held at a time.
  static constexpr std::int64_t kPieceQueries = 128;

  struct Kept {
    at::Tensor query, key, value;  // as given
    at::Tensor output, log_sums;   // of LibTorch's operator on the CPU
    FusedKept fused;               // of those on CUDA
  };
  struct Gradients {
    at::Tensor query, key, value;
  };
  struct KeyValue {
    at::Tensor key, value;
  };

  AttentionCore(const AttentionSpec& spec, std::uint32_t layer);

  // `query` [rows, heads, tokens, head size], `key` and `value` [rows, key heads, tokens, head
  // size], of one dtype; the result is shaped as `query`, and zero at padding. Behind
  // `context.past` tokens, keys and values are of those, too, and there is no backward.
  at::Tensor Forward(const BatchContext& context, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, Kept* kept) const;
  // From the gradient of the result. Lets go of what was kept.
  Gradients Backward(const BatchContext& context, const at::Tensor& gradient, Kept* kept) const;

  // Whether LibTorch's operator on the CPU does it, for rows that are one segment each.
  bool Whole(const BatchContext& context, const at::Device& device) const;

 private:
  struct Piece;
  static Kept PartOf(const Kept& kept, const RowSegment& segment);
  at::Tensor SegmentsForward(const BatchContext& context, Kept* kept) const;
  Gradients SegmentsBackward(const BatchContext& context, const at::Tensor& gradient,
                             const Kept& kept) const;
  at::Tensor WholeForward(const BatchContext& context, Kept* kept) const;
  Gradients WholeBackward(const BatchContext& context, const at::Tensor& gradient,
                          const Kept& kept) const;
  at::Tensor PieceForward(const BatchContext& context, const Kept& kept) const;
  Gradients PieceBackward(const BatchContext& context, const at::Tensor& gradient,
                          const Kept& kept) const;
  Piece ScoresOf(const BatchContext& context, const Kept& kept, std::int64_t first) const;
  void Hide(std::int64_t place, const ScoreWindow& window, const at::Tensor& scores) const;
  at::Tensor Spread(const at::Tensor& shared) const;

  AttentionSpec spec_;
  std::uint32_t layer_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_ATTENTION_CORE_H_
