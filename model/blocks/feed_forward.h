// The feed-forward part of a layer, plain or gated (Shazeer, "GLU variants improve transformer",
// 2020).

#ifndef SHOAL_MODEL_BLOCKS_FEED_FORWARD_H_
#define SHOAL_MODEL_BLOCKS_FEED_FORWARD_H_

#include <vector>

#include "model/blocks/linear.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

at::Tensor Activate(Activation activation, const at::Tensor& x);
// The gradient of `x` from that of Activate(x).
at::Tensor ActivateBackward(Activation activation, const at::Tensor& gradient, const at::Tensor& x);

class FeedForward {
 public:
  struct Kept {
    at::Tensor input, gate, value, activated;  // compute dtype; `value` if gated
    std::vector<at::Tensor> input_gradients;
    at::Tensor output_gradient;
    std::vector<Linear::Kept> input_products;
    Linear::Kept output_product;
  };

  FeedForward(const FeedForwardSpec& spec, const FindParameter& find);

  // `x` [tokens, hidden] in the compute dtype, to the same shape.
  at::Tensor Forward(const BatchContext& context, const at::Tensor& x, Kept* kept) const;
  at::Tensor BackwardInput(const at::Tensor& gradient, Kept* kept) const;
  void BackwardWeights(const Kept& kept) const;

 private:
  FeedForwardSpec spec_;
  std::vector<Linear> inputs_;
  Linear output_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_FEED_FORWARD_H_
