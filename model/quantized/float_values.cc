#include "model/quantized/float_values.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/status.h"

namespace shoal::model {
namespace {

using storage::DType;

// No fp32 subnormal occurs on the way, so results do not depend on a thread that flushes them.
float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  std::uint32_t bits = (magnitude << 13) + (112U << 23);  // the exponent's bias, 15, becomes 127
  if (magnitude >= 0x7c00U) bits += 112U << 23;           // infinity, NaN
  if (magnitude < 0x0400U) {                              // a count of 2^-24
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  }
  return std::bit_cast<float>(sign | bits);
}

std::uint16_t FloatToHalf(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U;
  } else if (magnitude >= 0x477ff000U) {  // 65520
    half = 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // 2^-14: the sum's last bit is 2^-24
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  } else {
    half = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

float Bf16ToFloat(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

std::uint16_t FloatToBf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

template <typename Convert>
void ReadHalves(const std::byte* from, std::span<float> values, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, from + i * sizeof(half), sizeof(half));
    values[i] = convert(half);
  }
}

template <typename Convert>
void WriteHalves(std::span<const float> values, std::byte* to, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = convert(values[i]);
    std::memcpy(to + i * sizeof(half), &half, sizeof(half));
  }
}

}  // namespace

bool HoldsFloats(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

void ReadFloats(std::span<const std::byte> bytes, DType dtype, std::size_t first,
                std::span<float> values) {
  SHOAL_CHECK(HoldsFloats(dtype));
  const std::size_t width = storage::DTypeBytes(dtype), count = bytes.size() / width;
  SHOAL_CHECK(first <= count && values.size() <= count - first);
  const std::byte* from = bytes.data() + first * width;
  if (dtype == DType::kF16) return ReadHalves(from, values, HalfToFloat);
  if (dtype == DType::kBF16) return ReadHalves(from, values, Bf16ToFloat);
  if (!values.empty()) std::memcpy(values.data(), from, values.size_bytes());
}

void WriteFloats(std::span<const float> values, DType dtype, std::size_t first,
                 std::span<std::byte> bytes) {
  SHOAL_CHECK(HoldsFloats(dtype));
  const std::size_t width = storage::DTypeBytes(dtype), count = bytes.size() / width;
  SHOAL_CHECK(first <= count && values.size() <= count - first);
  std::byte* to = bytes.data() + first * width;
  if (dtype == DType::kF16) return WriteHalves(values, to, FloatToHalf);
  if (dtype == DType::kBF16) return WriteHalves(values, to, FloatToBf16);
  if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
}

}  // namespace shoal::model
