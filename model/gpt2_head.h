// The last stage's end: final LayerNorm, head, and the summed cross entropy in fp32.
//
// The logits of all tokens can be larger than the rest of the stage together, so they are made a
// chunk of tokens at a time. Their gradients are kept from the forward where they are small, and
// made again in each half of the backward where they are not. Internal to model/: throws what
// LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_GPT2_HEAD_H_
#define SHOAL_MODEL_GPT2_HEAD_H_

#include <cstdint>
#include <memory>
#include <span>

#include "model/flat_parameters.h"

namespace at {
class Tensor;
}

namespace shoal::model {

class Gpt2Head {
 public:
  struct Kept;

  // Most bytes of logit gradients kept per micro-batch.
  static constexpr std::uint64_t kKeptLogitBytes = std::uint64_t{256} << 20;

  Gpt2Head(const storage::ModelConfig& config, const FlatParameters& parameters);
  ~Gpt2Head();

  // `input` fp32 [tokens, hidden], `labels` int64 [tokens] (kIgnoredLabel: none). Returns the sum
  // of -log p over the labels that count. Fills `*kept` unless it is null.
  double Forward(const at::Tensor& input, const at::Tensor& labels,
                 std::shared_ptr<Kept>* kept) const;
  // Gradient of that sum with respect to the input.
  at::Tensor BackwardInput(Kept* kept) const;
  void BackwardWeights(const Kept& kept) const;
  // fp32 [tokens, vocabulary].
  at::Tensor Logits(const at::Tensor& input) const;

 private:
  struct Weights;

  std::int64_t ChunkTokens() const;
  at::Tensor LogitGradient(const Kept& kept, std::int64_t chunk) const;
  at::Tensor Chunk(const at::Tensor& hidden, const at::Tensor& labels, std::int64_t chunk,
                   bool want_gradient, double* loss) const;

  std::int64_t vocabulary_;
  double epsilon_;
  std::unique_ptr<Weights> weights_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_GPT2_HEAD_H_
