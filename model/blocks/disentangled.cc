#include "model/blocks/disentangled.h"

#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace shoal::model {
namespace {

// Of [rows, heads, tokens, ...].
at::Tensor Slice(const at::Tensor& tensor, const RowSegment& segment) {
  return tensor.narrow(0, segment.row, 1).narrow(2, segment.first, segment.tokens);
}

// Distances of fewer tokens lie in the middle.
at::Tensor Middle(const at::Tensor& vectors, std::int64_t tokens) {
  if (!vectors.defined()) return {};
  const std::int64_t all = (vectors.size(1) + 1) / 2;
  return vectors.narrow(1, all - tokens, 2 * tokens - 1);
}

std::optional<Linear> NewProduct(const std::optional<LinearSpec>& own, const LinearSpec& of_content,
                                 const FindParameter& find) {
  if (!own) return std::nullopt;
  return Linear(own->weight.empty() ? of_content : *own, find);
}

// The table's rows are those of no sample.
const BatchContext& OfNoSample() {
  static const BatchContext context;
  return context;
}

}  // namespace

Disentangled::Disentangled(const AttentionSpec& spec, std::uint32_t layer,
                           const FindParameter& find)
    : heads_(spec.heads),
      head_size_(spec.head_size),
      position_key_(NewProduct(spec.disentangled->position_key, spec.inputs[1], find)),
      position_query_(NewProduct(spec.disentangled->position_query, spec.inputs[0], find)),
      core_(spec.scale, layer) {}

DistanceVectors Disentangled::VectorsOf(const BatchContext& context, const Kept& kept) const {
  const auto vectors = [&](const at::Tensor& products, bool reverse) -> at::Tensor {
    if (!products.defined()) return {};
    const at::Tensor rows = reverse ? context.relative.places.flip(0) : context.relative.places;
    return products.view({-1, heads_, head_size_})
        .index_select(0, rows)
        .transpose(0, 1)
        .contiguous();
  };
  return {vectors(kept.position_key, true), vectors(kept.position_query, false)};
}

at::Tensor Disentangled::Forward(const BatchContext& context, const at::Tensor& query,
                                 const at::Tensor& key, const at::Tensor& value, Kept* kept) const {
  *kept = {query, key, value, {}, {}, {}, {}, {}, {}};
  if (position_key_) {
    kept->position_key =
        position_key_->Forward(OfNoSample(), context.relative.rows, &kept->key_product);
  }
  if (position_query_) {
    kept->position_query =
        position_query_->Forward(OfNoSample(), context.relative.rows, &kept->query_product);
  }
  const DistanceVectors all = VectorsOf(context, *kept);
  if (context.segments.empty()) return core_.Forward(context, {query, key, value, all});
  const at::Tensor output =
      at::zeros({context.rows, context.tokens, heads_, head_size_}, query.options())
          .permute({0, 2, 1, 3});
  for (const RowSegment& segment : context.segments) {
    const DistanceVectors own = {Middle(all.key, segment.tokens),
                                 Middle(all.query, segment.tokens)};
    Slice(output, segment)
        .copy_(core_.Forward(context.Of(segment), {Slice(query, segment), Slice(key, segment),
                                                   Slice(value, segment), own}));
  }
  return output;
}

// Sums of what distances of one row of the table have.
at::Tensor Disentangled::OfTable(const BatchContext& context, const at::Tensor& by_distance,
                                 bool reverse) const {
  if (!by_distance.defined()) return {};
  const at::Tensor rows = reverse ? context.relative.places.flip(0) : context.relative.places;
  const at::Tensor flat = by_distance.transpose(0, 1).reshape({rows.size(0), heads_ * head_size_});
  return at::embedding_dense_backward(flat, rows, context.relative.rows.size(0), -1, false)
      .to(context.relative.rows.scalar_type());
}

Disentangled::Gradients Disentangled::Backward(const BatchContext& context,
                                               const at::Tensor& gradient, Kept* kept) const {
  const Kept taken = std::exchange(*kept, {});
  const DistanceVectors all = VectorsOf(context, taken);
  Gradients gradients;
  DistanceVectors sums;
  if (context.segments.empty()) {
    DisentangledCore::Gradients made =
        core_.Backward(context, gradient, {taken.query, taken.key, taken.value, all});
    gradients = {made.query, made.key, made.value};
    sums = made.distances;
  } else {
    const auto zeros = [](const at::Tensor& like) {
      return like.defined() ? at::zeros_like(like, at::kFloat) : at::Tensor();
    };
    sums = {zeros(all.key), zeros(all.query)};
    gradients = {at::zeros_like(taken.query), at::zeros_like(taken.key),
                 at::zeros_like(taken.value)};
    for (const RowSegment& segment : context.segments) {
      const std::int64_t tokens = segment.tokens;
      const DisentangledCore::Gradients made =
          core_.Backward(context.Of(segment), Slice(gradient, segment),
                         {Slice(taken.query, segment),
                          Slice(taken.key, segment),
                          Slice(taken.value, segment),
                          {Middle(all.key, tokens), Middle(all.query, tokens)}});
      Slice(gradients.query, segment).copy_(made.query);
      Slice(gradients.key, segment).copy_(made.key);
      Slice(gradients.value, segment).copy_(made.value);
      if (sums.key.defined()) Middle(sums.key, tokens).add_(made.distances.key);
      if (sums.query.defined()) Middle(sums.query, tokens).add_(made.distances.query);
    }
  }
  kept->key_product = taken.key_product;
  kept->query_product = taken.query_product;
  kept->position_key_gradient = OfTable(context, sums.key, true);
  kept->position_query_gradient = OfTable(context, sums.query, false);
  return gradients;
}

void Disentangled::BackwardWeights(const BatchContext& context, const Kept& kept) const {
  const RelativeContext& relative = context.relative;
  const auto add = [&](const std::optional<Linear>& product, const at::Tensor& gradient,
                       Linear::Kept of_product) {
    if (!product) return;
    const bool wanted = relative.gradient.defined();
    const at::Tensor of_rows = product->BackwardInput(gradient, &of_product, wanted);
    if (wanted) relative.gradient.add_(of_rows);
    product->BackwardWeights(relative.rows, gradient, of_product);
  };
  add(position_key_, kept.position_key_gradient, kept.key_product);
  add(position_query_, kept.position_query_gradient, kept.query_product);
}

}  // namespace shoal::model
