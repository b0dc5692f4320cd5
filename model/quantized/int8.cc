#include "model/quantized/int8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/status.h"

namespace shoal::model {
namespace {

constexpr float kCodeMax = 127;
// Added and taken away again, it rounds what is below 2^22 to whole numbers, ties to even.
constexpr float kRounder = 0x1.8p23F;

void EncodeRow(std::span<const float> values, float absmax, std::byte* codes) {
  const float factor = kCodeMax / absmax;
  if (!std::isfinite(factor)) {  // rows of zeros and of values near fp32's smallest
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double quotient = absmax == 0 ? 0.0 : double{values[i]} / double{absmax};
      codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(std::lround(127 * quotient)));
    }
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float rounded = (values[i] * factor + kRounder) - kRounder;
    codes[i] = static_cast<std::byte>(static_cast<std::int32_t>(rounded));
  }
}

}  // namespace

void QuantizeInt8(std::span<const float> values, std::size_t columns, std::span<std::byte> codes,
                  std::span<float> absmax) {
  SHOAL_CHECK(columns > 0 && codes.size() == values.size());
  SHOAL_CHECK(absmax.size() * columns == values.size());
  for (std::size_t row = 0; row < absmax.size(); ++row) {
    const auto own = values.subspan(row * columns, columns);
    std::int32_t most = 0;
    for (const float value : own) {
      const std::int32_t bits = std::bit_cast<std::int32_t>(value) & 0x7fffffff;
      most = bits > most ? bits : most;
    }
    absmax[row] = std::bit_cast<float>(most);
    EncodeRow(own, absmax[row], codes.data() + row * columns);
  }
}

void DecodeInt8(const Int8View& view, std::size_t first, std::span<float> out) {
  SHOAL_CHECK(first <= view.codes.size() && out.size() <= view.codes.size() - first);
  const std::size_t end = first + out.size();
  float* to = out.data();
  for (std::size_t at = first; at < end;) {
    const std::size_t row = at / view.columns;
    const std::size_t count = std::min(end, (row + 1) * view.columns) - at;
    float absmax;
    std::memcpy(&absmax, view.absmax.data() + row * sizeof(absmax), sizeof(absmax));
    const std::byte* codes = view.codes.data() + at;
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = static_cast<std::int8_t>(codes[i]);
      // Two products, in this order: bitsandbytes' bits.
      to[i] = static_cast<float>(code) * absmax * (1 / kCodeMax);
    }
    to += count;
    at += count;
  }
}

}  // namespace shoal::model
