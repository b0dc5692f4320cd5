#include "model/blocks/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace shoal::model {

Linear::Linear(const LinearSpec& spec, const FindParameter& find)
    : in_first_(spec.in_first), weight_(find(spec.weight)) {
  if (!spec.bias.empty()) bias_ = find(spec.bias);
}

at::Tensor Linear::Forward(const at::Tensor& x) const {
  const at::Tensor in_out = in_first_ ? weight_.compute : weight_.compute.t();
  return bias_.compute.defined() ? at::addmm(bias_.compute, x, in_out) : at::mm(x, in_out);
}

at::Tensor Linear::BackwardInput(const at::Tensor& gradient) const {
  return at::mm(gradient, in_first_ ? weight_.compute.t() : weight_.compute);
}

void Linear::BackwardWeights(const at::Tensor& x, const at::Tensor& gradient) const {
  const at::Tensor& left = in_first_ ? x : gradient;
  const at::Tensor& right = in_first_ ? gradient : x;
  if (x.scalar_type() == at::kFloat) {
    weight_.gradient.addmm_(left.t(), right);
  } else {
    weight_.gradient.add_(at::mm(left.t(), right));
  }
  if (bias_.gradient.defined()) {
    bias_.gradient.add_(gradient.sum(at::IntArrayRef{0}, false, at::kFloat));
  }
}

}  // namespace shoal::model
