#include "model/blocks/attention_core.h"

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "model/torch_device.h"

namespace shoal::model {
namespace {

// Of [rows, heads, tokens, ...]; of nothing, nothing.
at::Tensor Slice(const at::Tensor& tensor, const RowSegment& segment) {
  if (!tensor.defined()) return {};
  return tensor.narrow(0, segment.row, 1).narrow(2, segment.first, segment.tokens);
}

bool OnCuda(AttentionOperator by) {
  return by == AttentionOperator::kFlash || by == AttentionOperator::kEfficient;
}

// Tokens of [rows, tokens, ...].
at::Tensor Rows(const at::Tensor& tensor, const RowSegment& segment) {
  return tensor.narrow(0, segment.row, 1).narrow(1, segment.first, segment.tokens);
}

// Runs of padding, in order; none where rows are whole.
std::vector<RowSegment> Gaps(const BatchContext& context) {
  std::vector<RowSegment> gaps;
  if (context.segments.empty()) return gaps;
  auto next = context.segments.begin();
  for (std::int64_t row = 0; row < context.rows; ++row) {
    std::int64_t done = 0;
    for (; next != context.segments.end() && next->row == row; ++next) {
      if (next->first > done) gaps.push_back({row, done, next->first - done});
      done = next->first + next->tokens;
    }
    if (done < context.tokens) gaps.push_back({row, done, context.tokens - done});
  }
  return gaps;
}

// Of all segments and of padding, whose results are thrown away, counted over all rows: 0, ...
std::vector<std::int32_t> SegmentEnds(const BatchContext& context) {
  std::vector<std::int32_t> ends = {0};
  const auto add = [&](const std::vector<RowSegment>& segments) {
    for (const RowSegment& segment : segments) {
      ends.push_back(
          static_cast<std::int32_t>(segment.row * context.tokens + segment.first + segment.tokens));
    }
  };
  add(context.segments);
  add(Gaps(context));
  std::sort(ends.begin(), ends.end());
  return ends;
}

// Keys before a query that it sees, and behind it; nothing: all.
std::optional<std::int64_t> WindowLeft(const AttentionSpec& spec) {
  if (spec.window == 0) return std::nullopt;
  return spec.window - 1;
}
std::optional<std::int64_t> WindowRight(const AttentionSpec& spec) {
  if (spec.causal) return 0;
  return std::nullopt;
}

// The operator's numbers: 0 for all keys, 1 for those up to the query.
std::int64_t EfficientMask(const AttentionSpec& spec) { return spec.causal ? 1 : 0; }

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

AttentionOperator AttentionCore::Operator(const BatchContext& context,
                                          const at::Tensor& query) const {
  if (context.dropout > 0 || spec_.soft_cap > 0) return AttentionOperator::kPieces;
  const bool sees_all = spec_.window == 0 || spec_.window >= context.tokens;
  if (query.is_cpu()) return sees_all ? AttentionOperator::kCpu : AttentionOperator::kPieces;
  // The flash kernels are for halves, sizes of heads in eights up to 256, and Ampere upwards.
  const bool half = query.scalar_type() == at::kBFloat16 || query.scalar_type() == at::kHalf;
  const bool fits = query.size(3) % 8 == 0 && query.size(3) <= 256;
  if (half && fits && CudaCapability(query.get_device()) >= 80) return AttentionOperator::kFlash;
  const bool aligned = query.size(3) % 8 == 0;
  return sees_all && aligned ? AttentionOperator::kEfficient : AttentionOperator::kPieces;
}

// LibTorch's operator wants keys and values for every head.
at::Tensor AttentionCore::Spread(const at::Tensor& shared) const {
  if (spec_.heads == spec_.key_heads) return shared;
  const std::int64_t each = spec_.heads / spec_.key_heads;
  return shared.unsqueeze(2)
      .expand({-1, -1, each, -1, -1})
      .reshape({shared.size(0), spec_.heads, shared.size(2), shared.size(3)});
}

// The sum over the heads that share.
at::Tensor AttentionCore::Gather(const at::Tensor& spread) const {
  if (spec_.heads == spec_.key_heads) return spread;
  const std::int64_t each = spec_.heads / spec_.key_heads;
  return spread.reshape({spread.size(0), spec_.key_heads, each, spread.size(2), spread.size(3)})
      .sum(2);
}

at::Tensor AttentionCore::Forward(const BatchContext& context, const at::Tensor& query,
                                  const at::Tensor& key, const at::Tensor& value,
                                  Kept* kept) const {
  *kept = {query, key, value, {}, {}, {}, {}};
  const AttentionOperator by = Operator(context, query);
  if (OnCuda(by)) return CudaForward(context, by, kept);
  return context.segments.empty() ? WholeForward(context, kept) : SegmentsForward(context, kept);
}

AttentionCore::Gradients AttentionCore::Backward(const BatchContext& context,
                                                 const at::Tensor& gradient, Kept* kept) const {
  const Kept taken = std::exchange(*kept, {});
  const AttentionOperator by = Operator(context, taken.query);
  if (OnCuda(by)) return CudaBackward(context, by, gradient, taken);
  return context.segments.empty() ? WholeBackward(context, gradient, taken)
                                  : SegmentsBackward(context, gradient, taken);
}

AttentionCore::Kept AttentionCore::PartOf(const Kept& kept, const RowSegment& segment) {
  return {Slice(kept.query, segment),
          Slice(kept.key, segment),
          Slice(kept.value, segment),
          Slice(kept.output, segment),
          Slice(kept.log_sums, segment),
          {},
          {}};
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
  const AttentionOperator by = Operator(context, kept->query);
  if (OnCuda(by)) return CudaForward(context, by, kept);
  if (by == AttentionOperator::kPieces) return PieceForward(context, *kept);
  std::tie(kept->output, kept->log_sums) = at::_scaled_dot_product_flash_attention_for_cpu(
      kept->query, Spread(kept->key), Spread(kept->value), 0, spec_.causal, std::nullopt,
      spec_.scale);
  return kept->output;
}

AttentionCore::Gradients AttentionCore::WholeBackward(const BatchContext& context,
                                                      const at::Tensor& gradient,
                                                      const Kept& kept) const {
  if (Operator(context, kept.query) == AttentionOperator::kPieces) {
    return PieceBackward(context, gradient, kept);
  }
  auto [dquery, dkey, dvalue] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, kept.query, Spread(kept.key), Spread(kept.value), kept.output, kept.log_sums, 0,
      spec_.causal, std::nullopt, spec_.scale);
  return {dquery, Gather(dkey), Gather(dvalue)};
}

// What CUDA's operators take: tokens before heads, and where segments end.
struct AttentionCore::Laid {
  at::Tensor query, key, value;
  std::optional<at::Tensor> ends;  // int32, from 0 on; none: rows are whole
  std::int64_t longest = 0;        // tokens of a segment

  at::Tensor ends_or_none() const { return ends.value_or(at::Tensor()); }
};

AttentionCore::Laid AttentionCore::LayOut(const BatchContext& context, AttentionOperator by,
                                          const Kept& kept) const {
  const bool flash = by == AttentionOperator::kFlash;
  Laid laid;
  laid.longest = context.tokens;
  if (!context.segments.empty()) {
    const std::vector<std::int32_t> ends = SegmentEnds(context);
    laid.longest = 0;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      laid.longest = std::max<std::int64_t>(laid.longest, ends[i] - ends[i - 1]);
    }
    laid.ends = at::tensor(ends, at::kInt).to(kept.query.device());
  }
  const auto lay = [&](const at::Tensor& heads) {
    const at::Tensor tokens_first = heads.transpose(1, 2);
    if (!laid.ends) return tokens_first;
    const at::Tensor flat =
        tokens_first.reshape({context.tokens_in_all(), heads.size(1), heads.size(3)});
    return flash ? flat : flat.unsqueeze(0);
  };
  laid.query = lay(kept.query);
  laid.key = lay(flash ? kept.key : Spread(kept.key));
  laid.value = lay(flash ? kept.value : Spread(kept.value));
  return laid;
}

at::Tensor AttentionCore::CudaForward(const BatchContext& context, AttentionOperator by,
                                      Kept* kept) const {
  const Laid laid = LayOut(context, by, *kept);
  if (by == AttentionOperator::kFlash) {
    std::tie(kept->output, kept->log_sums, kept->seed, kept->offset, std::ignore) =
        at::_flash_attention_forward(laid.query, laid.key, laid.value, laid.ends, laid.ends,
                                     laid.longest, laid.longest, 0, spec_.causal, false,
                                     std::optional<double>(spec_.scale), WindowLeft(spec_),
                                     WindowRight(spec_));
  } else {
    std::tie(kept->output, kept->log_sums, kept->seed, kept->offset, std::ignore, std::ignore) =
        at::_efficient_attention_forward(laid.query, laid.key, laid.value, std::nullopt, laid.ends,
                                         laid.ends, laid.longest, laid.longest, 0,
                                         EfficientMask(spec_), true, spec_.scale);
  }
  const at::Tensor output = kept->output.view({context.rows, context.tokens, spec_.heads, -1});
  for (const RowSegment& gap : Gaps(context)) Rows(output, gap).zero_();
  return output.transpose(1, 2);
}

AttentionCore::Gradients AttentionCore::CudaBackward(const BatchContext& context,
                                                     AttentionOperator by,
                                                     const at::Tensor& gradient,
                                                     const Kept& kept) const {
  const Laid laid = LayOut(context, by, kept);
  const at::Tensor given = gradient.transpose(1, 2).reshape(kept.output.sizes());
  at::Tensor dquery, dkey, dvalue;
  if (by == AttentionOperator::kFlash) {
    std::tie(dquery, dkey, dvalue) = at::_flash_attention_backward(
        given, laid.query, laid.key, laid.value, kept.output, kept.log_sums, laid.ends_or_none(),
        laid.ends_or_none(), laid.longest, laid.longest, 0, spec_.causal, kept.seed, kept.offset,
        spec_.scale, WindowLeft(spec_), WindowRight(spec_));
  } else {
    std::tie(dquery, dkey, dvalue, std::ignore) = at::_efficient_attention_backward(
        given, laid.query, laid.key, laid.value, std::nullopt, kept.output, laid.ends, laid.ends,
        laid.longest, laid.longest, kept.log_sums, 0, kept.seed, kept.offset, EfficientMask(spec_),
        false, spec_.scale);
  }
  const std::vector<RowSegment> gaps = Gaps(context);
  const auto back = [&](const at::Tensor& laid_out) {
    const std::int64_t heads = laid_out.size(-2);
    const at::Tensor rows = laid_out.view({context.rows, context.tokens, heads, -1});
    for (const RowSegment& gap : gaps) Rows(rows, gap).zero_();
    return rows.transpose(1, 2);
  };
  const bool spread = by == AttentionOperator::kEfficient;
  return {back(dquery), spread ? Gather(back(dkey)) : back(dkey),
          spread ? Gather(back(dvalue)) : back(dvalue)};
}

AttentionCore::Piece AttentionCore::ScoresOf(const BatchContext& context, const Kept& kept,
                                             std::int64_t first) const {
  Piece piece;
  ScoreWindow& window = piece.window;
  window.first = first;
  window.queries = std::min(kPieceQueries, context.tokens - first);
  window.first_key = spec_.window > 0 ? std::max<std::int64_t>(0, first - spec_.window + 1) : 0;
  window.keys = (spec_.causal ? first + window.queries : context.tokens) - window.first_key;
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
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(scores.device());
  const at::Tensor query = at::arange(first, first + window.queries, options).unsqueeze(1);
  const at::Tensor key =
      at::arange(window.first_key, window.first_key + window.keys, options).unsqueeze(0);
  const at::Tensor by_head = scores.view({groups, each, window.queries, window.keys});
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (spec_.causal) by_head.masked_fill_(key.gt(query), kNever);
  if (spec_.window > 0) by_head.masked_fill_(key.le(query.sub(spec_.window)), kNever);
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
