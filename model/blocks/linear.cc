#include "model/blocks/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "model/blocks/dropout_mask.h"

namespace shoal::model {
namespace {

// left [n, rows] and right [n, columns] to [rows, columns] of a gradient.
void AddProduct(const at::Tensor& left, const at::Tensor& right, const at::Tensor& gradient) {
  if (left.scalar_type() == at::kFloat) {
    gradient.addmm_(left.t(), right);
  } else {
    gradient.add_(at::mm(left.t(), right));
  }
}

}  // namespace

Linear::Linear(const LinearSpec& spec, const FindParameter& find)
    : in_first_(spec.in_first), in_(spec.in), weight_(find(spec.weight)), lora_(spec.lora) {
  if (!spec.bias.empty()) bias_ = find(spec.bias);
  if (!lora_) return;
  a_ = find(lora_->a);
  b_ = find(lora_->b);
}

at::Tensor Linear::AdapterMask(const BatchContext& context, const at::Tensor& like) const {
  if (!context.training) return {};
  return DropoutMask(context, {lora_->layer, AdapterSite(lora_->place), lora_->dropout},
                     context.tokens * in_, like);
}

at::Tensor Linear::Forward(const BatchContext& context, const at::Tensor& x) const {
  const at::Tensor weight = weight_.ForProduct();
  const at::Tensor in_out = in_first_ ? weight : weight.t();
  at::Tensor y = bias_.compute.defined() ? at::addmm(bias_.compute, x, in_out) : at::mm(x, in_out);
  if (!lora_) return y;
  const at::Tensor dropped = ApplyDropout(x, AdapterMask(context, x), lora_->dropout);
  return y.addmm_(at::mm(dropped, a_.compute.t()), b_.compute.t(), 1, lora_->scale);
}

// Of what lies between A and B.
at::Tensor Linear::AdapterGradient(const at::Tensor& gradient) const {
  return at::mm(gradient, b_.compute).mul_(lora_->scale);
}

at::Tensor Linear::BackwardInput(const BatchContext& context, const at::Tensor& gradient) const {
  const at::Tensor weight = weight_.ForProduct();
  at::Tensor dx = at::mm(gradient, in_first_ ? weight.t() : weight);
  if (!lora_) return dx;
  const at::Tensor through = at::mm(AdapterGradient(gradient), a_.compute);
  return dx.add_(ApplyDropout(through, AdapterMask(context, dx), lora_->dropout));
}

void Linear::AdapterBackwardWeights(const BatchContext& context, const at::Tensor& x,
                                    const at::Tensor& gradient) const {
  const at::Tensor dropped = ApplyDropout(x, AdapterMask(context, x), lora_->dropout);
  const at::Tensor between = at::mm(dropped, a_.compute.t()).mul_(lora_->scale);
  AddProduct(gradient, between, b_.gradient);
  AddProduct(AdapterGradient(gradient), dropped, a_.gradient);
}

void Linear::BackwardWeights(const BatchContext& context, const at::Tensor& x,
                             const at::Tensor& gradient) const {
  if (lora_) AdapterBackwardWeights(context, x, gradient);
  if (weight_.trained()) {
    AddProduct(in_first_ ? x : gradient, in_first_ ? gradient : x, weight_.gradient);
  }
  if (bias_.trained()) bias_.gradient.add_(gradient.sum(at::IntArrayRef{0}, false, at::kFloat));
}

}  // namespace shoal::model
