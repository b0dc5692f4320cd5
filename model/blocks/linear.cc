#include "model/blocks/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "model/blocks/dropout_mask.h"

namespace shoal::model {
namespace {

// Adds `scale` times left [n, rows] and right [n, columns] to [rows, columns] of a gradient.
void AddProduct(const at::Tensor& left, const at::Tensor& right, const at::Tensor& gradient,
                double scale = 1) {
  if (left.scalar_type() == at::kFloat) {
    gradient.addmm_(left.t(), right, 1, scale);
  } else if (left.is_cuda()) {
    // Sums in fp32 and adds at once: a product in bf16 loses bits and takes its way through memory.
    at::Tensor to = gradient;
    at::addmm_out(to, to, left.t(), right, at::kFloat, 1, scale);
  } else {
    gradient.add_(at::mm(left.t(), right), scale);
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

at::Tensor Linear::Dropped(const at::Tensor& x, const Kept& kept) const {
  return ApplyPacked(x, kept.mask, lora_->dropout);
}

at::Tensor Linear::Forward(const BatchContext& context, const at::Tensor& x, Kept* kept) const {
  const at::Tensor weight = weight_.ForProduct();
  const at::Tensor in_out = in_first_ ? weight : weight.t();
  at::Tensor y = bias_.compute.defined() ? at::addmm(bias_.compute, x, in_out) : at::mm(x, in_out);
  if (!lora_) return y;
  kept->mask = at::Tensor();
  if (context.training) {
    kept->mask = PackedMask(context, {lora_->layer, AdapterSite(lora_->place), lora_->dropout},
                            context.tokens * in_);
  }
  kept->between = at::mm(Dropped(x, *kept), a_.compute.t());
  return y.addmm_(kept->between, b_.compute.t(), 1, lora_->scale);
}

at::Tensor Linear::BackwardInput(const at::Tensor& gradient, Kept* kept, bool wanted) const {
  if (lora_) kept->between_gradient = at::mm(gradient, b_.compute);
  if (!wanted) return {};
  const at::Tensor weight = weight_.ForProduct();
  at::Tensor dx = at::mm(gradient, in_first_ ? weight.t() : weight);
  if (!lora_) return dx;
  if (!kept->mask.defined()) {
    return dx.addmm_(kept->between_gradient, a_.compute, 1, lora_->scale);
  }
  const at::Tensor through = at::mm(kept->between_gradient, a_.compute);
  return dx.add_(Dropped(through, *kept), lora_->scale);
}

void Linear::AdapterBackwardWeights(const at::Tensor& x, const at::Tensor& gradient,
                                    const Kept& kept) const {
  AddProduct(gradient, kept.between, b_.gradient, lora_->scale);
  AddProduct(kept.between_gradient, Dropped(x, kept), a_.gradient, lora_->scale);
}

void Linear::BackwardWeights(const at::Tensor& x, const at::Tensor& gradient,
                             const Kept& kept) const {
  if (lora_) AdapterBackwardWeights(x, gradient, kept);
  if (weight_.trained()) {
    AddProduct(in_first_ ? x : gradient, in_first_ ? gradient : x, weight_.gradient);
  }
  if (bias_.trained()) bias_.gradient.add_(gradient.sum(at::IntArrayRef{0}, false, at::kFloat));
}

}  // namespace shoal::model
