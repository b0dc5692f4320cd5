#include "model/blocks/relative_table.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/log.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace shoal::model {

at::Tensor PlacesOfDistances(const RelativeSpec& spec, std::int64_t tokens) {
  at::Tensor distances = at::arange(1 - tokens, tokens, at::kLong);
  if (spec.buckets > 0) {
    const std::int64_t middle = spec.buckets / 2;
    const at::Tensor size = distances.abs().clamp_min(middle - 1);
    const double most = static_cast<double>(spec.farthest - 1) / static_cast<double>(middle);
    const at::Tensor whole = at::log(at::scalar_tensor(most, at::kFloat));
    const at::Tensor far = at::log(size.div(middle))
                               .div(whole)
                               .mul(middle - 1)
                               .ceil()
                               .add(middle)
                               .mul(distances.sign());
    distances = at::where(size.le(middle), distances.to(at::kFloat), far).to(at::kLong);
  }
  return distances.add(spec.span).clamp(0, 2 * spec.span - 1);
}

RelativeTable::RelativeTable(const RelativeSpec& spec, const FindParameter& find,
                             at::ScalarType compute)
    : spec_(spec), compute_(compute), table_(find(spec.table.weight)) {
  if (spec.norm) norm_.emplace(*spec.norm, find);
  trained_ = table_.trained() || (spec.norm && find(spec.norm->weight).trained());
}

RelativeContext RelativeTable::Forward(std::int64_t tokens, bool training, Kept* kept) const {
  at::Tensor rows = table_.Rows(0, spec_.table.rows);
  if (norm_) rows = norm_->Forward(rows, kept);
  RelativeContext context;
  if (training && trained_) context.gradient = at::zeros(rows.sizes(), rows.options());
  // Weights may go and come between the parts of an operation.
  context.rows = rows.to(compute_, /*non_blocking=*/false, /*copy=*/!norm_);
  context.places = PlacesOfDistances(spec_, tokens).to(rows.device());
  return context;
}

void RelativeTable::BackwardWeights(const RelativeContext& context, Kept* kept) const {
  if (!context.gradient.defined()) return;
  const at::Tensor drows = norm_ ? norm_->BackwardInput(context.gradient, kept) : context.gradient;
  if (norm_) norm_->BackwardWeights(*kept);
  if (table_.trained()) table_.gradient.add_(drows);
}

}  // namespace shoal::model
