#include "model/blocks/embedding.h"

#include <ATen/ops/embedding_dense_backward.h>

#include "model/blocks/dropout_mask.h"

namespace shoal::model {
namespace {

// Adds row i of `gradient` to row ids[i] of `table`, in order.
void AddRows(const at::Tensor& gradient, const at::Tensor& ids, const at::Tensor& table) {
  if (!table.is_cpu()) {
    table.add_(at::embedding_dense_backward(gradient, ids, table.size(0), -1, false));
    return;
  }
  const std::int64_t hidden = table.size(1);
  const at::Tensor rows = gradient.contiguous();
  const float* from = rows.const_data_ptr<float>();
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  float* const to = table.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < rows.size(0); ++row, from += hidden) {
    float* const sum = to + id[row] * hidden;
    for (std::int64_t i = 0; i < hidden; ++i) sum[i] += from[i];
  }
}

}  // namespace

Embedding::Embedding(const EmbeddingSpec& spec, const FindParameter& find)
    : spec_(spec), tokens_(find(spec.tokens.weight)) {
  if (spec.positions) positions_ = find(spec.positions->weight);
  if (spec.types) types_ = find(spec.types->weight);
  if (spec.projection) projection_.emplace(*spec.projection, find);
  if (spec.norm) norm_.emplace(*spec.norm, find);
}

bool Embedding::trained() const {
  return tokens_.trained() || positions_.trained() || types_.trained() ||
         (projection_ && projection_->trained()) || (norm_ && norm_->trained());
}

at::Tensor Embedding::Forward(const BatchContext& context, const at::Tensor& ids,
                              Kept* kept) const {
  at::Tensor sum = tokens_.Rows(ids);
  const std::int64_t width = sum.size(1);
  if (spec_.scale != 1) sum.mul_(spec_.scale);
  if (spec_.positions && context.positions.defined()) {
    sum.add_(positions_.Rows(context.positions.add(spec_.position_first)));
  } else if (spec_.positions) {
    sum.view({context.rows, context.tokens, width})
        .add_(positions_.Rows(spec_.position_first + context.past, context.tokens));
  }
  if (spec_.types && context.types.defined()) {
    sum.add_(types_.Rows(context.types));
  } else if (spec_.types) {
    sum.add_(types_.Rows(0, 1));
  }
  if (projection_) {
    kept->sum = sum.to(projection_->dtype());
    sum = projection_->Forward(context, kept->sum, &kept->product).to(at::kFloat);
  }
  if (norm_) sum = norm_->Forward(sum, &kept->norm);
  kept->mask = DropoutMask(context, 0, DropoutSite::kEmbedding, context.tokens * sum.size(1), sum);
  return ApplyDropout(sum, kept->mask, context.dropout);
}

void Embedding::BackwardInput(const BatchContext& context, const at::Tensor& gradient,
                              Kept* kept) const {
  kept->gradient = ApplyDropout(gradient, kept->mask, context.dropout);
  if (norm_) kept->gradient = norm_->BackwardInput(kept->gradient, &kept->norm);
  if (projection_) {
    kept->projected_gradient = kept->gradient.to(projection_->dtype());
    kept->gradient =
        projection_->BackwardInput(kept->projected_gradient, &kept->product).to(at::kFloat);
  }
  kept->mask = at::Tensor();
}

void Embedding::BackwardWeights(const BatchContext& context, const at::Tensor& ids,
                                const Kept& kept) const {
  const at::Tensor& gradient = kept.gradient;
  const std::int64_t hidden = gradient.size(1);
  if (tokens_.trained()) {
    AddRows(spec_.scale == 1 ? gradient : gradient.mul(spec_.scale), ids, tokens_.gradient);
  }
  if (!positions_.trained()) {
    // Nothing is learned of where a token stands.
  } else if (context.positions.defined()) {
    AddRows(gradient, context.positions.add(spec_.position_first), positions_.gradient);
  } else {
    positions_.gradient.narrow(0, spec_.position_first, context.tokens)
        .add_(gradient.view({context.rows, context.tokens, hidden}).sum(0));
  }
  if (!types_.trained()) {
    // As of positions.
  } else if (context.types.defined()) {
    AddRows(gradient, context.types, types_.gradient);
  } else {
    types_.gradient.select(0, 0).add_(gradient.sum(0));
  }
  if (projection_) {
    projection_->BackwardWeights(kept.sum, kept.projected_gradient, kept.product);
  }
  if (norm_) norm_->BackwardWeights(kept.norm);
}

}  // namespace shoal::model
