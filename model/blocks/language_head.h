// The last stage's end: final norm, head, and the summed cross entropy in fp32.
//
// The logits of all tokens can be larger than the rest of the stage together, so they are made a
// chunk of tokens at a time. Their gradients are kept from the forward where they are small, and
// made again in each half of the backward where they are not.

#ifndef SHOAL_MODEL_BLOCKS_LANGUAGE_HEAD_H_
#define SHOAL_MODEL_BLOCKS_LANGUAGE_HEAD_H_

#include <optional>
#include <vector>

#include "model/blocks/norm.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class LanguageHead {
 public:
  struct Kept {
    Norm::Kept norm;
    at::Tensor hidden;  // normed, compute dtype
    at::Tensor labels;
    std::vector<at::Tensor> logit_gradients;  // per chunk; empty: made again when needed
  };

  // The label of a token that has none and does not count.
  static constexpr std::int64_t kNoLabel = -100;

  LanguageHead(const HeadSpec& spec, const FindParameter& find);

  // `input` fp32 [tokens, hidden], `labels` int64 [tokens] (kNoLabel: none). Returns the sum of
  // -log p over the labels that count. Fills `*kept` unless it is null.
  double Forward(const at::Tensor& input, const at::Tensor& labels, Kept* kept) const;
  // Gradient of that sum with respect to the input.
  at::Tensor BackwardInput(Kept* kept) const;
  void BackwardWeights(const Kept& kept) const;
  // fp32 [tokens, vocabulary].
  at::Tensor Logits(const at::Tensor& input) const;

 private:
  std::int64_t vocabulary() const { return vocabulary_; }
  std::int64_t ChunkTokens() const;
  at::Tensor Hidden(const at::Tensor& input, Norm::Kept* kept) const;
  at::Tensor Scores(const at::Tensor& hidden, const at::Tensor& weight) const;
  at::Tensor LogitGradient(const at::Tensor& weight, const Kept& kept, std::int64_t chunk) const;
  at::Tensor Chunk(const at::Tensor& weight, const at::Tensor& hidden, const at::Tensor& labels,
                   std::int64_t chunk, bool want_gradient, double* loss) const;
  // Makes the logits [rows, vocabulary] their gradients if these are wanted; else they are spoilt.
  // Returns the log of their sum of exponentials, [rows, 1].
  at::Tensor LogitsToGradients(const at::Tensor& logits, const at::Tensor& index,
                               bool want_gradient) const;

  double soft_cap_;
  std::int64_t vocabulary_;
  Parameter weight_;  // [vocabulary, hidden]
  std::optional<Norm> norm_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_LANGUAGE_HEAD_H_
