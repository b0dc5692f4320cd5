#include "model/blocks/dropout_mask.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_dropout_backward.h>

#include <algorithm>
#include <array>
#include <span>

namespace shoal::model {
namespace {

DropoutKey KeyOf(const BatchContext& context, std::uint32_t layer, DropoutSite site,
                 std::int64_t row) {
  return {context.seed, context.samples[static_cast<std::size_t>(row)], layer, site};
}

// `dropped` = `x` * `scale` where `packed` has a one, and x * 0 elsewhere.
void DropRow(std::span<const float> x, const std::uint8_t* packed, float scale,
             std::span<float> dropped) {
  // Factors of four values, by the four bits.
  std::array<std::array<float, 4>, 16> factors{};
  for (std::size_t bits = 0; bits < factors.size(); ++bits) {
    for (std::size_t i = 0; i < 4; ++i) factors[bits][i] = (bits >> i & 1) != 0 ? scale : 0;
  }
  constexpr std::int64_t kGrainBytes = 4096;
  const auto bytes = static_cast<std::int64_t>(x.size() / 8);
  at::parallel_for(0, bytes, kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    for (auto byte = static_cast<std::size_t>(begin); byte < static_cast<std::size_t>(end);
         ++byte) {
      const auto& low = factors[packed[byte] & 15U];
      const auto& high = factors[packed[byte] >> 4U];
      const float* const from = x.data() + 8 * byte;
      float* const to = dropped.data() + 8 * byte;
      for (std::size_t i = 0; i < 4; ++i) to[i] = from[i] * low[i];
      for (std::size_t i = 0; i < 4; ++i) to[4 + i] = from[4 + i] * high[i];
    }
  });
  for (std::size_t i = x.size() / 8 * 8; i < x.size(); ++i) {
    dropped[i] = x[i] * ((packed[i / 8] >> (i % 8) & 1) != 0 ? scale : 0);
  }
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

at::Tensor PackedMask(const BatchContext& context, const MaskPlace& place,
                      std::int64_t per_sample) {
  if (place.probability <= 0) return {};
  const at::Tensor packed = at::empty({context.rows, (per_sample + 7) / 8}, at::kByte);
  auto* to = packed.mutable_data_ptr<std::uint8_t>();
  std::array<std::uint8_t, 1024> keep{};
  const auto piece = static_cast<std::int64_t>(keep.size());
  for (std::int64_t row = 0; row < context.rows; ++row) {
    const DropoutKey key = KeyOf(context, place.layer, place.site, row);
    for (std::int64_t first = 0; first < per_sample; first += piece) {
      const auto count = static_cast<std::size_t>(std::min(piece, per_sample - first));
      FillDropoutMask(key, place.probability, static_cast<std::uint64_t>(first),
                      {keep.data(), count});
      for (std::size_t i = 0; i < count; i += 8, ++to) {
        *to = 0;
        for (std::size_t bit = 0; bit < std::min<std::size_t>(8, count - i); ++bit) {
          *to |= static_cast<std::uint8_t>(keep[i + bit] << bit);
        }
      }
    }
  }
  return packed;
}

at::Tensor ApplyPacked(const at::Tensor& x, const at::Tensor& packed, double probability) {
  if (!packed.defined()) return x;
  const std::int64_t rows = packed.size(0), per_sample = x.numel() / rows;
  const auto* const from = packed.const_data_ptr<std::uint8_t>();
  if (!x.is_cpu() || x.scalar_type() != at::kFloat) {
    const at::Tensor mask = at::empty({rows, per_sample}, at::kBool);
    auto* const keep = mask.mutable_data_ptr<bool>();
    for (std::int64_t i = 0; i < mask.numel(); ++i) {
      const std::int64_t row = i / per_sample, place = i % per_sample;
      keep[i] = (from[row * packed.size(1) + place / 8] >> (place % 8) & 1) != 0;
    }
    return ApplyDropout(x, mask.to(x.device()), probability);
  }
  const at::Tensor values = x.contiguous();
  const at::Tensor dropped = at::empty(values.sizes(), values.options());
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::size_t>(row * per_sample);
    const auto count = static_cast<std::size_t>(per_sample);
    DropRow({values.const_data_ptr<float>() + first, count}, from + row * packed.size(1),
            static_cast<float>(1 / (1 - probability)),
            {dropped.mutable_data_ptr<float>() + first, count});
  }
  return dropped;
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
