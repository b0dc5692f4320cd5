// One GPT-2 transformer layer on ATen, with a backward written by hand in two halves.
//
// The backward is written by hand for three reasons. The upstream peer waits for the gradient of
// the input, and nobody for the gradients of the weights, so the two are computed apart. Sums have
// a fixed order. No threads of an autograd engine run. Pre-LayerNorm as in Radford et al.,
// "Language models are unsupervised multitask learners" (2019), arithmetic as Hugging Face's
// GPT2Block. The residual stream and the norms are fp32; matrix products run in the dtype of the
// compute weights. Internal to model/: throws what LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_GPT2_BLOCK_H_
#define SHOAL_MODEL_GPT2_BLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/ids.h"
#include "model/dropout.h"
#include "model/flat_parameters.h"

namespace at {
class Tensor;
}

namespace shoal::model {

// What every layer knows of a micro-batch; must outlive the calls.
struct BatchContext {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;  // per row
  std::vector<SampleId> samples;
  double dropout = 0;  // 0 in evaluation
  std::uint64_t seed = 0;
};

class Gpt2Block {
 public:
  // Opaque: what one micro-batch keeps between forward and the halves of backward.
  struct Kept;

  Gpt2Block(const storage::ModelConfig& config, std::uint32_t layer,
            const FlatParameters& parameters);
  ~Gpt2Block();
  Gpt2Block(Gpt2Block&&) noexcept;

  // `input` fp32 [rows * tokens, hidden] to the same shape. Fills `*kept` unless it is null.
  at::Tensor Forward(const BatchContext& context, const at::Tensor& input,
                     std::shared_ptr<Kept>* kept) const;
  // Gradient of the output to gradient of the input; leaves in `kept` what BackwardWeights needs.
  at::Tensor BackwardInput(const BatchContext& context, const at::Tensor& output_gradient,
                           Kept* kept) const;
  // Adds to the gradients of the parameters.
  void BackwardWeights(const Kept& kept) const;

 private:
  struct Weights;

  at::Tensor Attention(const BatchContext& context, const at::Tensor& normed, Kept* kept) const;
  at::Tensor AttentionBackward(const BatchContext& context, const at::Tensor& gradient,
                               Kept* kept) const;

  std::uint32_t layer_;
  std::int64_t heads_;
  std::int64_t hidden_;
  double epsilon_;
  std::unique_ptr<Weights> weights_;
};

// Mask of a dropout site as bool [rows, per_sample] on `like`'s device: true is kept.
at::Tensor DropoutMask(const BatchContext& context, std::uint32_t layer, DropoutSite site,
                       std::int64_t per_sample, const at::Tensor& like);
// `x` (any shape of as many values) where kept, scaled by 1 / (1 - probability); and, because the
// operation is linear, also its own backward. Undefined mask: `x`.
at::Tensor ApplyDropout(const at::Tensor& x, const at::Tensor& mask, double probability);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_GPT2_BLOCK_H_
