#include "storage/models/float_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/bytes.h"
#include "common/half.h"
#include "common/status.h"

namespace shoal::storage {
namespace {

struct FloatRow {
  DType dtype;
  std::string_view option, config;
};

constexpr FloatRow kFloats[] = {{DType::kF32, "fp32", "float32"},
                                {DType::kBF16, "bf16", "bfloat16"},
                                {DType::kF16, "fp16", "float16"}};

std::uint16_t Narrow(DType dtype, float value) {
  return dtype == DType::kF16 ? FloatToHalf(value) : FloatToBf16(value);
}

bool FiniteNarrow(DType dtype, std::uint16_t bits) {
  return std::isfinite(dtype == DType::kF16 ? HalfToFloat(bits) : Bf16ToFloat(bits));
}

// One kind a loop, for the vectoriser: weights of a frozen model are read for each use.
template <typename Convert>
void ReadHalves(const std::byte* from, std::span<float> values, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = convert(LoadLittle<std::uint16_t>(from + 2 * i));
  }
}

// The place of the first word that has all bits of `exponent`.
template <typename Word>
std::optional<std::size_t> FirstWith(Word exponent, std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t count = bytes.size() / sizeof(Word);
  const auto found = [&](std::size_t i) {
    return (LoadLittle<Word>(bytes.data() + i * sizeof(Word)) & exponent) == exponent;
  };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, count);
    Word any = 0;  // without a branch within the block, for the vectoriser
    for (std::size_t i = begin; i < end; ++i) any |= static_cast<Word>(found(i));
    for (std::size_t i = begin; any != 0 && i < end; ++i) {
      if (found(i)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

void ReadFloats(DType dtype, std::span<const std::byte> bytes, std::span<float> values) {
  SHOAL_CHECK(IsFloat(dtype) && bytes.size() == values.size() * DTypeBytes(dtype));
  if (dtype == DType::kF32) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return;
  }
  if (dtype == DType::kF16) return ReadHalves(bytes.data(), values, HalfToFloat);
  ReadHalves(bytes.data(), values, Bf16ToFloat);
}

std::optional<std::size_t> FirstNotFinite(DType dtype, std::span<const std::byte> bytes) {
  SHOAL_CHECK(IsFloat(dtype) && bytes.size() % DTypeBytes(dtype) == 0);
  if (dtype == DType::kF32) return FirstWith<std::uint32_t>(0x7f800000, bytes);
  return FirstWith<std::uint16_t>(dtype == DType::kF16 ? 0x7c00 : 0x7f80, bytes);
}

std::optional<float> WriteFloats(DType dtype, std::span<const float> values,
                                 std::span<std::byte> bytes) {
  SHOAL_CHECK(IsFloat(dtype) && bytes.size() == values.size() * DTypeBytes(dtype));
  if (dtype == DType::kF32) {
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return std::nullopt;
  }
  std::optional<float> lost;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = Narrow(dtype, values[i]);
    if (!lost && std::isfinite(values[i]) && !FiniteNarrow(dtype, bits)) lost = values[i];
    StoreLittle<std::uint16_t>(bytes.data() + 2 * i, bits);
  }
  return lost;
}

std::optional<DType> FloatOfOption(std::string_view name) {
  for (const FloatRow& row : kFloats) {
    if (row.option == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> FloatOfConfig(std::string_view name) {
  for (const FloatRow& row : kFloats) {
    if (row.config == name) return row.dtype;
  }
  return std::nullopt;
}

std::string_view ConfigNameOf(DType dtype) {
  for (const FloatRow& row : kFloats) {
    if (row.dtype == dtype) return row.config;
  }
  SHOAL_CHECK(false);
}

}  // namespace shoal::storage
