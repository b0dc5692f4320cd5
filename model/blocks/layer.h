// One transformer layer on ATen, with a backward written by hand in two halves.
//
// The backward is written by hand for three reasons. The upstream peer waits for the gradient of
// the input, and nobody for the gradients of the weights, so the two are computed apart. Sums have
// a fixed order. No threads of an autograd engine run. The residual stream and the norms are fp32;
// matrix products run in the dtype of the compute weights.

#ifndef SHOAL_MODEL_BLOCKS_LAYER_H_
#define SHOAL_MODEL_BLOCKS_LAYER_H_

#include <memory>
#include <optional>

#include "model/blocks/attention.h"
#include "model/blocks/feed_forward.h"
#include "model/blocks/norm.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class Layer {
 public:
  // What one micro-batch keeps between forward and the halves of backward.
  struct Kept {
    Norm::Kept attention_norm, attention_out_norm, feed_forward_norm, feed_forward_out_norm;
    Attention::Kept attention;
    FeedForward::Kept feed_forward;
    at::Tensor attention_mask, feed_forward_mask;  // of dropout
  };

  Layer(const LayerSpec& spec, std::uint32_t layer, const FindParameter& find,
        const FindRotary& rotary);

  // `input` fp32 [rows * tokens, hidden] to the same shape. Fills `*kept`.
  at::Tensor Forward(const BatchContext& context, const at::Tensor& input, Kept* kept) const;
  // Gradient of the output to gradient of the input; leaves in `kept` what BackwardWeights needs.
  // `wanted`: if not, nobody needs the gradient of the input, and the result is undefined.
  at::Tensor BackwardInput(const BatchContext& context, const at::Tensor& output_gradient,
                           Kept* kept, bool wanted) const;
  // Adds to the gradients of the parameters.
  void BackwardWeights(const BatchContext& context, const Kept& kept) const;

 private:
  at::Tensor Before(const std::optional<Norm>& norm, const at::Tensor& x, Norm::Kept* kept) const;
  at::Tensor Sum(const std::optional<Norm>& norm, const at::Tensor& x, const at::Tensor& part,
                 const at::Tensor& mask, double dropout, Norm::Kept* kept) const;
  struct SumGradients {
    at::Tensor x, part;  // fp32, compute dtype
  };
  SumGradients SumBackward(const std::optional<Norm>& norm, const at::Tensor& gradient,
                           const at::Tensor& mask, double dropout, Norm::Kept* kept) const;
  at::Tensor BeforeBackward(const std::optional<Norm>& norm, const at::Tensor& gradient,
                            Norm::Kept* kept) const;

  std::uint32_t layer_;
  bool norm_of_sum_;
  std::optional<Norm> attention_norm_, attention_out_norm_;
  std::optional<Norm> feed_forward_norm_, feed_forward_out_norm_;
  Attention attention_;
  FeedForward feed_forward_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_LAYER_H_
