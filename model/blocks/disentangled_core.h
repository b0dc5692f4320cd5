// Softmax attention by content and distance, which never holds tokens x tokens of anything (He et
// al., "DeBERTa: decoding-enhanced BERT with disentangled attention", 2021, equation 4).
//
// Score of query q and key k: scale * (Q_q K_k + Q_q P_(q-k) + K_k R_(q-k)), with a vector P and R
// per head and distance. Scores are made some queries at a time, and made again in the backward.
// The terms by distance are products over the distances that those queries can have: [queries,
// queries + tokens] of numbers, whose diagonals are the scores' rows. No number is gathered or
// scattered, so sums have a fixed order on every device.

#ifndef SHOAL_MODEL_BLOCKS_DISENTANGLED_CORE_H_
#define SHOAL_MODEL_BLOCKS_DISENTANGLED_CORE_H_

#include "model/blocks/parameter.h"

namespace shoal::model {

// Vectors by distance, of one dtype: [heads, 2 tokens - 1, head size]. `key` is met by queries, in
// the order of k - q from 1 - tokens on; `query` by keys, in that of q - k. Undefined: no such
// term.
struct DistanceVectors {
  at::Tensor key, query;
};

class DisentangledCore {
 public:
  // Queries, and keys, whose scores are held at a time.
  static constexpr std::int64_t kPieceTokens = 128;

  struct Inputs {
    at::Tensor query, key, value;  // [rows, heads, tokens, head size]
    DistanceVectors distances;
  };
  struct Gradients {
    at::Tensor query, key, value;  // as the inputs
    DistanceVectors distances;     // fp32
  };

  DisentangledCore(double scale, std::uint32_t layer) : scale_(scale), layer_(layer) {}

  // Rows of one segment each; shaped as the query.
  at::Tensor Forward(const BatchContext& context, const Inputs& inputs) const;
  // From the gradient of the result.
  Gradients Backward(const BatchContext& context, const at::Tensor& gradient,
                     const Inputs& inputs) const;

 private:
  struct Piece;
  Piece ScoresOf(const BatchContext& context, const Inputs& by_head, std::int64_t first) const;
  void AddBack(const Inputs& by_head, const Piece& piece, const at::Tensor& dscores,
               const Gradients& sums) const;

  double scale_;
  std::uint32_t layer_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_DISENTANGLED_CORE_H_
