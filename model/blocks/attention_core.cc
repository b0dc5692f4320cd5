#include "model/blocks/attention_core.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace shoal::model {
namespace {

// Of [rows, heads, tokens, ...]; of nothing, nothing.
at::Tensor Slice(const at::Tensor& tensor, const RowSegment& segment) {
  if (!tensor.defined()) return {};
  return tensor.narrow(0, segment.row, 1).narrow(2, segment.first, segment.tokens);
}

}  // namespace

// Scores of some queries with the keys that they may see; heads that share keys lie side by side.
struct AttentionCore::Piece {
  ScoreWindow window;
  at::Tensor query;          // [rows * key heads, shared heads * queries, size]
  at::Tensor key, value;     // [rows * key heads, keys, size]
  at::Tensor capped;         // tanh(s / cap); undefined without a cap
  at::Tensor probabilities;  // fp32 [rows * key heads, shared heads * queries, keys]
  at::Tensor mask;           // of dropout, shaped like it
};

AttentionCore::AttentionCore(const AttentionSpec& spec, std::uint32_t layer)
    : spec_(spec), layer_(layer) {}

bool AttentionCore::Whole(const BatchContext& context, const at::Device& device) const {
  const bool sees_all = spec_.window == 0 || spec_.window >= context.tokens;
  return device.is_cpu() && context.dropout <= 0 && spec_.soft_cap == 0 && sees_all;
}

// LibTorch's operator wants keys and values for every head.
at::Tensor AttentionCore::Spread(const at::Tensor& shared) const {
  if (spec_.heads == spec_.key_heads) return shared;
  const std::int64_t each = spec_.heads / spec_.key_heads;
  return shared.unsqueeze(2)
      .expand({-1, -1, each, -1, -1})
      .reshape({shared.size(0), spec_.heads, shared.size(2), shared.size(3)});
}

at::Tensor AttentionCore::Forward(const BatchContext& context, const at::Tensor& query,
                                  const at::Tensor& key, const at::Tensor& value,
                                  Kept* kept) const {
  *kept = {query, key, value, {}, {}, {}};
  if (context.past > 0) return PieceForward(context, *kept);
  if (const auto by = ChooseFused(spec_, context, query)) {
    return FusedForward(spec_, context, *by, {query, key, value}, &kept->fused);
  }
  return context.segments.empty() ? WholeForward(context, kept) : SegmentsForward(context, kept);
}

AttentionCore::Gradients AttentionCore::Backward(const BatchContext& context,
                                                 const at::Tensor& gradient, Kept* kept) const {
  const Kept taken = std::exchange(*kept, {});
  if (const auto by = ChooseFused(spec_, context, taken.query)) {
    const FusedInputs inputs = {taken.query, taken.key, taken.value};
    auto [query, key, value] = FusedBackward(spec_, context, *by, inputs, gradient, taken.fused);
    return {query, key, value};
  }
  return context.segments.empty() ? WholeBackward(context, gradient, taken)
                                  : SegmentsBackward(context, gradient, taken);
}

AttentionCore::Kept AttentionCore::PartOf(const Kept& kept, const RowSegment& segment) {
  return {Slice(kept.query, segment),  Slice(kept.key, segment),      Slice(kept.value, segment),
          Slice(kept.output, segment), Slice(kept.log_sums, segment), {}};
}

at::Tensor AttentionCore::SegmentsForward(const BatchContext& context, Kept* kept) const {
  const std::int64_t size = kept->query.size(3);
  // Heads of a token side by side, as the product behind wants them.
  const at::Tensor output =
      at::zeros({context.rows, context.tokens, spec_.heads, size}, kept->query.options())
          .permute({0, 2, 1, 3});
  const at::Tensor log_sums = at::zeros({context.rows, context.tokens, spec_.heads},
                                        kept->query.options().dtype(at::kFloat))
                                  .transpose(1, 2);
  bool any_whole = false;
  for (const RowSegment& segment : context.segments) {
    Kept part = PartOf(*kept, segment);
    Slice(output, segment).copy_(WholeForward(context.Of(segment), &part));
    if (!part.log_sums.defined()) continue;
    any_whole = true;
    Slice(log_sums, segment).copy_(part.log_sums);
  }
  if (any_whole) kept->output = output, kept->log_sums = log_sums;
  return output;
}

AttentionCore::Gradients AttentionCore::SegmentsBackward(const BatchContext& context,
                                                         const at::Tensor& gradient,
                                                         const Kept& kept) const {
  const Gradients all = {at::zeros_like(kept.query), at::zeros_like(kept.key),
                         at::zeros_like(kept.value)};
  for (const RowSegment& segment : context.segments) {
    const Gradients part =
        WholeBackward(context.Of(segment), Slice(gradient, segment), PartOf(kept, segment));
    Slice(all.query, segment).copy_(part.query);
    Slice(all.key, segment).copy_(part.key);
    Slice(all.value, segment).copy_(part.value);
  }
  return all;
}

at::Tensor AttentionCore::WholeForward(const BatchContext& context, Kept* kept) const {
  if (!Whole(context, kept->query.device())) return PieceForward(context, *kept);
  std::tie(kept->output, kept->log_sums) = at::_scaled_dot_product_flash_attention_for_cpu(
      kept->query, Spread(kept->key), Spread(kept->value), 0, spec_.causal, std::nullopt,
      spec_.scale);
  return kept->output;
}

AttentionCore::Gradients AttentionCore::WholeBackward(const BatchContext& context,
                                                      const at::Tensor& gradient,
                                                      const Kept& kept) const {
  if (!Whole(context, kept.query.device())) return PieceBackward(context, gradient, kept);
  auto [dquery, dkey, dvalue] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, kept.query, Spread(kept.key), Spread(kept.value), kept.output, kept.log_sums, 0,
      spec_.causal, std::nullopt, spec_.scale);
  if (spec_.heads == spec_.key_heads) return {dquery, dkey, dvalue};
  const auto gather = [&](const at::Tensor& spread) {
    return spread
        .view({context.rows, spec_.key_heads, spec_.heads / spec_.key_heads, context.tokens, -1})
        .sum(2);
  };
  return {dquery, gather(dkey), gather(dvalue)};
}

// Keys that a query may not see; the first query is the token at `place`.
void AttentionCore::Hide(std::int64_t place, const ScoreWindow& window,
                         const at::Tensor& scores) const {
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(scores.device());
  const at::Tensor query = at::arange(place, place + window.queries, options).unsqueeze(1);
  const at::Tensor key =
      at::arange(window.first_key, window.first_key + window.keys, options).unsqueeze(0);
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (spec_.causal) scores.masked_fill_(key.gt(query), kNever);
  if (spec_.window > 0) scores.masked_fill_(key.le(query.sub(spec_.window)), kNever);
}

AttentionCore::Piece AttentionCore::ScoresOf(const BatchContext& context, const Kept& kept,
                                             std::int64_t first) const {
  Piece piece;
  ScoreWindow& window = piece.window;
  window.first = first;
  window.queries = std::min(kPieceQueries, context.tokens - first);
  const std::int64_t place = context.past + first;  // of the first query, among the keys
  window.first_key = spec_.window > 0 ? std::max<std::int64_t>(0, place - spec_.window + 1) : 0;
  window.keys =
      (spec_.causal ? place + window.queries : context.past + context.tokens) - window.first_key;
  const std::int64_t groups = context.rows * spec_.key_heads;
  const std::int64_t each = spec_.heads / spec_.key_heads, size = kept.query.size(3);
  piece.query =
      kept.query.narrow(2, first, window.queries).reshape({groups, each * window.queries, size});
  piece.key =
      kept.key.narrow(2, window.first_key, window.keys).reshape({groups, window.keys, size});
  piece.value =
      kept.value.narrow(2, window.first_key, window.keys).reshape({groups, window.keys, size});
  at::Tensor scores =
      at::bmm(piece.query, piece.key.transpose(1, 2)).to(at::kFloat).mul_(spec_.scale);
  if (spec_.soft_cap > 0) {
    piece.capped = scores.div_(spec_.soft_cap).tanh_();
    scores = piece.capped.mul(spec_.soft_cap);
  }
  if (window.queries > 1) {  // a single one sees all keys that were taken
    Hide(place, window, scores.view({groups, each, window.queries, window.keys}));
  }
  piece.probabilities = at::_softmax(scores, -1, false);
  piece.mask = ScoreMask(context, layer_, spec_.heads, window, scores);
  return piece;
}

at::Tensor AttentionCore::PieceForward(const BatchContext& context, const Kept& kept) const {
  const std::int64_t each = spec_.heads / spec_.key_heads, size = kept.query.size(3);
  // Heads of a token side by side, as the product behind wants them.
  const at::Tensor output =
      at::empty({context.rows, context.tokens, spec_.heads, size}, kept.query.options());
  for (std::int64_t first = 0; first < context.tokens; first += kPieceQueries) {
    const Piece piece = ScoresOf(context, kept, first);
    const at::Tensor seen = ApplyDropout(piece.probabilities, piece.mask, context.dropout);
    const at::Tensor weighted = at::bmm(seen.to(kept.value.scalar_type()), piece.value);
    output.narrow(1, first, piece.window.queries)
        .view({context.rows, piece.window.queries, spec_.key_heads, each, size})
        .copy_(weighted.view({context.rows, spec_.key_heads, each, piece.window.queries, size})
                   .permute({0, 3, 1, 2, 4}));
  }
  return output.permute({0, 2, 1, 3});
}

AttentionCore::Gradients AttentionCore::PieceBackward(const BatchContext& context,
                                                      const at::Tensor& gradient,
                                                      const Kept& kept) const {
  const std::int64_t groups = context.rows * spec_.key_heads;
  const std::int64_t each = spec_.heads / spec_.key_heads, size = kept.query.size(3);
  const at::ScalarType dtype = kept.query.scalar_type();
  Gradients sums = {at::empty(kept.query.sizes(), kept.query.options()),
                    at::zeros_like(kept.key, at::kFloat), at::zeros_like(kept.value, at::kFloat)};
  for (std::int64_t first = 0; first < context.tokens; first += kPieceQueries) {
    const Piece piece = ScoresOf(context, kept, first);
    const ScoreWindow& window = piece.window;
    const at::Tensor dweighted =
        gradient.narrow(2, first, window.queries).reshape({groups, each * window.queries, size});
    const at::Tensor seen = ApplyDropout(piece.probabilities, piece.mask, context.dropout);
    const at::Tensor dprobabilities =
        ApplyDropout(at::bmm(dweighted, piece.value.transpose(1, 2)).to(at::kFloat), piece.mask,
                     context.dropout);
    at::Tensor dscores =
        at::_softmax_backward_data(dprobabilities, piece.probabilities, -1, at::kFloat);
    if (piece.capped.defined()) dscores.mul_(piece.capped.square().neg_().add_(1));
    const at::Tensor scaled = dscores.mul_(spec_.scale).to(dtype);
    sums.query.narrow(2, first, window.queries)
        .copy_(at::bmm(scaled, piece.key).view({context.rows, spec_.heads, window.queries, size}));
    const auto add = [&](const at::Tensor& sum, const at::Tensor& part) {
      sum.narrow(2, window.first_key, window.keys)
          .add_(part.view({context.rows, spec_.key_heads, window.keys, size}));
    };
    add(sums.key, at::bmm(scaled.transpose(1, 2), piece.query));
    add(sums.value, at::bmm(seen.to(dtype).transpose(1, 2), dweighted));
  }
  sums.key = sums.key.to(dtype);
  sums.value = sums.value.to(dtype);
  return sums;
}

}  // namespace shoal::model
