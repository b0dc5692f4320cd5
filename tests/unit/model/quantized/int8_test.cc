// int8 rows against bitsandbytes' codes and decoded values, and against the definition.

#include "model/quantized/int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "model/quantized/stored_weight.h"
#include "tests/unit/model/quantized/golden_weights.h"

namespace shoal::model {
namespace {

TEST(Int8, CodesAndAbsmaxesAreBitsandbytes) {
  for (const std::string& name : kInt8Cases) {
    const auto golden = Golden(name);
    const storage::TensorView& source = golden->tensors().at("source");
    const auto rows = static_cast<std::size_t>(source.shape[0]);
    const auto values = Floats(source);
    std::vector<std::byte> codes(values.size());
    std::vector<float> absmax(rows);
    QuantizeInt8(values, values.size() / rows, codes, absmax);
    EXPECT_EQ(codes, Bytes(golden->tensors().at("weight").data)) << name;
    EXPECT_EQ(absmax, Floats(golden->tensors().at("SCB"))) << name;
  }
}

TEST(Int8, DecodesToBitsandbytesBits) {
  for (const std::string& name : kInt8Cases) {
    const auto golden = Golden(name);
    const storage::TensorView& wanted = golden->tensors().at("decoded");
    const StoredWeight weight = FindWeight(golden->tensors(), "weight", wanted.shape).value();
    std::vector<float> decoded(weight.values);
    DecodeInt8(weight.int8, 0, decoded);
    EXPECT_EQ(BytesOf(decoded), Bytes(wanted.data)) << name;
  }
}

TEST(Int8, EachCodeIsTheNearest) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr std::size_t kColumns = 37;
  // Sizes from fp32's smallest to its largest ones, and a row of zeros.
  const std::vector<float> sizes = {1, 0, 1e-30F, 1e-37F, 1e-38F, 1e-44F, 0x1p117F};
  std::vector<float> values;
  for (const float size : sizes) {
    for (std::size_t i = 0; i < kColumns; ++i) values.push_back(normal(random) * size);
  }
  std::vector<std::byte> codes(values.size());
  std::vector<float> absmax(sizes.size()), decoded(values.size());
  QuantizeInt8(values, kColumns, codes, absmax);
  DecodeInt8({kColumns, codes, std::as_bytes(std::span(absmax))}, 0, decoded);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double most = absmax[i / kColumns];
    const double exact = most == 0 ? 0 : 127 * double{values[i]} / most;
    ASSERT_NEAR(static_cast<std::int8_t>(codes[i]), exact, 0.5 + 2e-5) << i;
    const double step = most / 127 + std::numeric_limits<float>::denorm_min();
    ASSERT_NEAR(decoded[i], values[i], 0.501 * step + std::numeric_limits<float>::denorm_min())
        << i;
  }
}

TEST(Int8, AnyRangeDecodesAlikeFromUnalignedBytes) {
  const auto golden = Golden("int8_fp16");
  StoredWeight weight =
      FindWeight(golden->tensors(), "weight", golden->tensors().at("source").shape).value();
  std::vector<float> whole(weight.values);
  DecodeInt8(weight.int8, 0, whole);
  std::vector<std::byte> scales(weight.int8.absmax.size() + 1);
  std::copy(weight.int8.absmax.begin(), weight.int8.absmax.end(), scales.begin() + 1);
  weight.int8.absmax = std::span<const std::byte>(scales).subspan(1);
  std::vector<float> part;
  for (std::size_t first = 0; first <= whole.size(); ++first) {
    for (std::size_t count = 0; count <= whole.size() - first; ++count) {
      part.assign(count + 1, 9);
      DecodeInt8(weight.int8, first, std::span(part).first(count));
      ASSERT_EQ(part.back(), 9);
      part.pop_back();
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
    }
  }
}

}  // namespace
}  // namespace shoal::model
