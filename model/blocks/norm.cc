#include "model/blocks/norm.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rsqrt.h>

#include <tuple>

namespace shoal::model {

Norm::Norm(const NormSpec& spec, const FindParameter& find)
    : kind_(spec.kind),
      epsilon_(spec.epsilon),
      around_one_(spec.around_one),
      size_(spec.size),
      weight_(find(spec.weight)) {
  if (!spec.bias.empty()) bias_ = find(spec.bias);
}

at::Tensor Norm::Factor() const { return around_one_ ? weight_.value.add(1) : weight_.value; }

at::Tensor Norm::Forward(const at::Tensor& x, Kept* kept) const {
  kept->input = x;
  if (kind_ == NormKind::kLayerNorm) {
    auto [y, mean, deviation] =
        at::native_layer_norm(x, {size_}, weight_.value, bias_.value, epsilon_);
    kept->mean = mean;
    kept->reciprocal_deviation = deviation;
    return y;
  }
  if (x.is_cuda()) {  // one kernel; the CPU has none
    auto [y, deviation] = at::_fused_rms_norm(x, {size_}, Factor(), epsilon_);
    kept->reciprocal_deviation = deviation;
    return y;
  }
  kept->reciprocal_deviation = x.square().mean(-1, true).add_(epsilon_).rsqrt_();
  return x.mul(kept->reciprocal_deviation).mul_(Factor());
}

at::Tensor Norm::BackwardInput(const at::Tensor& gradient, Kept* kept) const {
  const at::Tensor dy = gradient.to(at::kFloat);
  if (kind_ == NormKind::kLayerNorm) {
    auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        dy, kept->input, {size_}, kept->mean, kept->reciprocal_deviation, weight_.value,
        bias_.value, {true, weight_.trained(), bias_.trained()});
    kept->weight_gradient = dweight;
    kept->bias_gradient = dbias;
    kept->DropForwardOnly();
    return dx;
  }
  if (dy.is_cuda()) {
    auto [dx, dweight] = at::_fused_rms_norm_backward(
        dy, kept->input, {size_}, kept->reciprocal_deviation, Factor(), {true, weight_.trained()});
    kept->weight_gradient = dweight;
    kept->DropForwardOnly();
    return dx;
  }
  const at::Tensor normed = kept->input.mul(kept->reciprocal_deviation);
  if (weight_.trained()) kept->weight_gradient = dy.mul(normed).reshape({-1, size_}).sum(0);
  const at::Tensor dnormed = dy.mul(Factor());
  const at::Tensor along = dnormed.mul(normed).mean(-1, true);
  const at::Tensor dx = dnormed.sub_(normed.mul(along)).mul_(kept->reciprocal_deviation);
  kept->DropForwardOnly();
  return dx;
}

void Norm::BackwardWeights(const Kept& kept) const {
  if (weight_.trained()) weight_.gradient.add_(kept.weight_gradient);
  if (bias_.trained()) bias_.gradient.add_(kept.bias_gradient);
}

}  // namespace shoal::model
