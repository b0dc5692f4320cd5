#include "model/blocks/feed_forward.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

#include <string_view>

namespace shoal::model {
namespace {

c10::string_view Approximation(Activation activation) {
  return activation == Activation::kGeluTanh ? "tanh" : "none";
}

}  // namespace

at::Tensor Activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kSilu: return at::silu(x);
    case Activation::kRelu: return at::relu(x);
    case Activation::kTanh: return at::tanh(x);
    case Activation::kGelu:
    case Activation::kGeluTanh: break;
  }
  return at::gelu(x, Approximation(activation));
}

at::Tensor ActivateBackward(Activation activation, const at::Tensor& gradient,
                            const at::Tensor& x) {
  switch (activation) {
    case Activation::kSilu: return at::silu_backward(gradient, x);
    case Activation::kRelu: return at::threshold_backward(gradient, x, 0);
    case Activation::kTanh: return at::tanh_backward(gradient, at::tanh(x));
    case Activation::kGelu:
    case Activation::kGeluTanh: break;
  }
  return at::gelu_backward(gradient, x, Approximation(activation));
}

FeedForward::FeedForward(const FeedForwardSpec& spec, const FindParameter& find)
    : spec_(spec), output_(spec.output, find) {
  for (const LinearSpec& input : spec.inputs) inputs_.emplace_back(input, find);
}

at::Tensor FeedForward::Forward(const BatchContext& context, const at::Tensor& x,
                                Kept* kept) const {
  kept->input = x;
  kept->input_products.resize(inputs_.size());
  kept->gate = inputs_[0].Forward(context, x, &kept->input_products[0]);
  if (inputs_.size() == 2) {
    kept->value = inputs_[1].Forward(context, x, &kept->input_products[1]);
  }
  if (spec_.gated && inputs_.size() == 1) {
    const at::Tensor both = kept->gate;
    kept->gate = both.narrow(1, 0, spec_.inner);
    kept->value = both.narrow(1, spec_.inner, spec_.inner);
  }
  kept->activated = Activate(spec_.activation, kept->gate);
  if (spec_.gated) kept->activated.mul_(kept->value);
  return output_.Forward(context, kept->activated, &kept->output_product);
}

at::Tensor FeedForward::BackwardInput(const at::Tensor& gradient, Kept* kept) const {
  kept->output_gradient = gradient;
  at::Tensor dgate = output_.BackwardInput(gradient, &kept->output_product);
  at::Tensor dvalue;
  if (spec_.gated) {
    dvalue = dgate.mul(Activate(spec_.activation, kept->gate));
    dgate.mul_(kept->value);
  }
  dgate = ActivateBackward(spec_.activation, dgate, kept->gate);
  kept->input_gradients = {dgate};
  if (spec_.gated) kept->input_gradients.push_back(dvalue);
  if (spec_.gated && inputs_.size() == 1) kept->input_gradients = {at::cat({dgate, dvalue}, 1)};
  kept->gate = kept->value = at::Tensor();
  const auto backward = [&](std::size_t i) {
    return inputs_[i].BackwardInput(kept->input_gradients[i], &kept->input_products[i]);
  };
  at::Tensor sum = backward(0);
  if (inputs_.size() == 2) sum.add_(backward(1));
  return sum;
}

void FeedForward::BackwardWeights(const Kept& kept) const {
  output_.BackwardWeights(kept.activated, kept.output_gradient, kept.output_product);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].BackwardWeights(kept.input, kept.input_gradients[i], kept.input_products[i]);
  }
}

}  // namespace shoal::model
