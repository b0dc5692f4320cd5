#include "model/blocks/dropout_mask.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/native_dropout_backward.h>

#include <span>

namespace shoal::model {
namespace {

DropoutKey KeyOf(const BatchContext& context, std::uint32_t layer, DropoutSite site,
                 std::int64_t row) {
  return {context.seed, context.samples[static_cast<std::size_t>(row)], layer, site};
}

}  // namespace

at::Tensor DropoutMask(const BatchContext& context, std::uint32_t layer, DropoutSite site,
                       std::int64_t per_sample, const at::Tensor& like) {
  return DropoutMask(context, {layer, site, context.dropout}, per_sample, like);
}

at::Tensor DropoutMask(const BatchContext& context, const MaskPlace& place, std::int64_t per_sample,
                       const at::Tensor& like) {
  if (place.probability <= 0) return {};
  at::Tensor mask = at::empty({context.rows, per_sample}, at::kByte);
  const auto count = static_cast<std::size_t>(per_sample);
  for (std::int64_t row = 0; row < context.rows; ++row) {
    FillDropoutMask(KeyOf(context, place.layer, place.site, row), place.probability, 0,
                    {mask.mutable_data_ptr<std::uint8_t>() + row * per_sample, count});
  }
  return mask.to(like.device(), at::kBool);
}

at::Tensor ScoreMask(const BatchContext& context, std::uint32_t layer, std::int64_t heads,
                     const ScoreWindow& window, const at::Tensor& like) {
  if (context.dropout <= 0) return {};
  at::Tensor mask = at::empty({context.rows, heads, window.queries, window.keys}, at::kByte);
  std::uint8_t* to = mask.mutable_data_ptr<std::uint8_t>();
  const std::int64_t tokens = context.row_tokens > 0 ? context.row_tokens : context.tokens;
  for (std::int64_t row = 0; row < context.rows; ++row) {
    const DropoutKey key = KeyOf(context, layer, DropoutSite::kAttention, row);
    for (std::int64_t line = 0; line < heads * window.queries; ++line, to += window.keys) {
      const std::int64_t head = line / window.queries;
      const std::int64_t query = window.first + line % window.queries;
      const std::int64_t first = (head * tokens + context.row_first + query) * tokens +
                                 context.row_first + window.first_key;
      FillDropoutMask(key, context.dropout, static_cast<std::uint64_t>(first),
                      {to, static_cast<std::size_t>(window.keys)});
    }
  }
  return mask.to(like.device(), at::kBool);
}

at::Tensor ApplyDropout(const at::Tensor& x, const at::Tensor& mask, double probability) {
  if (!mask.defined()) return x;
  return at::native_dropout_backward(x, mask.view(x.sizes()), 1 / (1 - probability));
}

}  // namespace shoal::model
