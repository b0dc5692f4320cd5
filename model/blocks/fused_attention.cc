#include "model/blocks/fused_attention.h"

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/tensor.h>

#ifdef SHOAL_CUDA
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

namespace shoal::model {
namespace {

// Tokens of [rows, tokens, ...].
at::Tensor Slice(const at::Tensor& tensor, const RowSegment& segment) {
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

// Where segments and runs of padding end, counted over all rows: 0, ... Padding attends to itself;
// what that gives is thrown away.
std::vector<std::int32_t> Ends(const BatchContext& context) {
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
  if (!spec.causal) return std::nullopt;
  return 0;
}

// The efficient operator's numbers: 0 for all keys, 1 for those up to the query.
std::int64_t MaskNumber(const AttentionSpec& spec) { return spec.causal ? 1 : 0; }

// A copy for each of the heads that share, and the sum over them.
at::Tensor Spread(const AttentionSpec& spec, const at::Tensor& shared) {
  if (spec.heads == spec.key_heads) return shared;
  return shared.repeat_interleave(spec.heads / spec.key_heads, 1);
}
at::Tensor Gather(const AttentionSpec& spec, const at::Tensor& spread) {
  if (spec.heads == spec.key_heads) return spread;
  return spread.unflatten(1, {spec.key_heads, spec.heads / spec.key_heads}).sum(2);
}

// What the operators take: tokens before heads. Rows that have segments are laid end to end.
struct Laid {
  at::Tensor query, key, value;
  std::optional<at::Tensor> ends;  // int32; none: rows are whole
  std::int64_t longest = 0;        // tokens of a segment

  at::Tensor ends_or_none() const { return ends.value_or(at::Tensor()); }
};

Laid LayOut(const AttentionSpec& spec, const BatchContext& context, FusedOperator by,
            const FusedInputs& inputs) {
  const bool flash = by == FusedOperator::kFlash;
  Laid laid;
  laid.longest = context.tokens;
  if (!context.segments.empty()) {
    const std::vector<std::int32_t> ends = Ends(context);
    laid.longest = 0;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      laid.longest = std::max<std::int64_t>(laid.longest, ends[i] - ends[i - 1]);
    }
    laid.ends = at::tensor(ends, at::kInt).to(inputs.query.device());
  }
  const auto lay = [&](const at::Tensor& heads) {
    const at::Tensor tokens_first = heads.transpose(1, 2);
    if (!laid.ends) return tokens_first;
    const at::Tensor flat =
        tokens_first.reshape({context.tokens_in_all(), heads.size(1), heads.size(3)});
    return flash ? flat : flat.unsqueeze(0);
  };
  laid.query = lay(inputs.query);
  laid.key = lay(flash ? inputs.key : Spread(spec, inputs.key));
  laid.value = lay(flash ? inputs.value : Spread(spec, inputs.value));
  return laid;
}

// Back to [rows, heads, tokens, size], with zeros at padding.
at::Tensor TakeUp(const BatchContext& context, const at::Tensor& laid) {
  const at::Tensor rows = laid.view({context.rows, context.tokens, laid.size(-2), -1});
  for (const RowSegment& gap : Gaps(context)) Slice(rows, gap).zero_();
  return rows.transpose(1, 2);
}

// 80 for 8.0; 0 if it is not known.
int CudaCapability([[maybe_unused]] int index) {
#ifdef SHOAL_CUDA
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) == cudaSuccess) {
    return 10 * major + minor;
  }
#endif
  return 0;
}

}  // namespace

std::optional<FusedOperator> ChooseFused(const AttentionSpec& spec, const BatchContext& context,
                                         const at::Tensor& query) {
  const std::int64_t size = query.size(3);
  if (!query.is_cuda() || context.dropout > 0 || spec.soft_cap > 0 || size % 8 != 0) return {};
  // The flash kernels are for halves, heads of up to 256 values, and Ampere upwards.
  const bool half = query.scalar_type() == at::kBFloat16 || query.scalar_type() == at::kHalf;
  if (half && size <= 256 && CudaCapability(query.get_device()) >= 80) return FusedOperator::kFlash;
  if (spec.window > 0 && spec.window < context.tokens) return {};
  return FusedOperator::kEfficient;
}

at::Tensor FusedForward(const AttentionSpec& spec, const BatchContext& context, FusedOperator by,
                        const FusedInputs& inputs, FusedKept* kept) {
  const Laid laid = LayOut(spec, context, by, inputs);
  if (by == FusedOperator::kFlash) {
    std::tie(kept->output, kept->log_sums, kept->seed, kept->offset, std::ignore) =
        at::_flash_attention_forward(laid.query, laid.key, laid.value, laid.ends, laid.ends,
                                     laid.longest, laid.longest, 0, spec.causal, false,
                                     std::optional<double>(spec.scale), WindowLeft(spec),
                                     WindowRight(spec));
  } else {
    std::tie(kept->output, kept->log_sums, kept->seed, kept->offset, std::ignore, std::ignore) =
        at::_efficient_attention_forward(laid.query, laid.key, laid.value, std::nullopt, laid.ends,
                                         laid.ends, laid.longest, laid.longest, 0, MaskNumber(spec),
                                         true, spec.scale);
  }
  return TakeUp(context, kept->output);
}

FusedInputs FusedBackward(const AttentionSpec& spec, const BatchContext& context, FusedOperator by,
                          const FusedInputs& inputs, const at::Tensor& gradient,
                          const FusedKept& kept) {
  const Laid laid = LayOut(spec, context, by, inputs);
  const at::Tensor given = gradient.transpose(1, 2).reshape(kept.output.sizes());
  at::Tensor query, key, value;
  if (by == FusedOperator::kFlash) {
    std::tie(query, key, value) = at::_flash_attention_backward(
        given, laid.query, laid.key, laid.value, kept.output, kept.log_sums, laid.ends_or_none(),
        laid.ends_or_none(), laid.longest, laid.longest, 0, spec.causal, kept.seed, kept.offset,
        spec.scale, WindowLeft(spec), WindowRight(spec));
    return {TakeUp(context, query), TakeUp(context, key), TakeUp(context, value)};
  }
  std::tie(query, key, value, std::ignore) = at::_efficient_attention_backward(
      given, laid.query, laid.key, laid.value, std::nullopt, kept.output, laid.ends, laid.ends,
      laid.longest, laid.longest, kept.log_sums, 0, kept.seed, kept.offset, MaskNumber(spec), false,
      spec.scale);
  return {TakeUp(context, query), Gather(spec, TakeUp(context, key)),
          Gather(spec, TakeUp(context, value))};
}

}  // namespace shoal::model
