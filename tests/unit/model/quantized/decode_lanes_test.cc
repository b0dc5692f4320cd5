// What the lanes of a GPU decode, in a loop on the host: the values of the CPU's decoders, to the
// bit.

#include "model/device/decode_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "model/quantized/int8.h"
#include "model/quantized/nf4.h"

namespace shoal::model {
namespace {

// Of sizes that differ from block to block and row to row; some zeros.
std::vector<float> Weights(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = normal(random) * std::ldexp(1.0F, static_cast<int>(i / 50 % 60) - 30);
    if (i / 64 % 9 == 4) values[i] = 0;
  }
  return values;
}

template <typename Codes>
std::vector<float> ByLanes(const Codes& weight) {
  std::vector<float> all;
  for (std::uint64_t first = 0; first < weight.values; first += kWeightGroup) {
    float group[kWeightGroup] = {};
    const int count = GroupSize(weight, first);
    DecodeGroup(weight, first, count, group);
    all.insert(all.end(), group, group + count);
  }
  return all;
}

void ExpectBits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i])) << i;
  }
}

const std::uint8_t* Bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

// Whole blocks, parts of one, an odd number, more than a nested block of 256 blocks.
class Nf4Lanes : public testing::TestWithParam<std::size_t> {};

TEST_P(Nf4Lanes, AreTheDecoder) {
  const std::vector<float> values = Weights(GetParam());
  std::vector<std::byte> codes((values.size() + 1) / 2);
  std::vector<float> absmax((values.size() + kNf4Block - 1) / kNf4Block);
  QuantizeNf4(values, codes, absmax);
  Nf4View view;
  view.values = values.size();
  view.codes = codes;
  view.absmax = std::as_bytes(std::span(absmax));
  Nf4Codes weight;
  weight.values = values.size();
  weight.codes = Bytes(codes);
  weight.absmax = absmax.data();
  std::ranges::copy(kNf4Values, weight.quantiles);
  std::vector<float> want(values.size());
  DecodeNf4(view, 0, want);
  ExpectBits(ByLanes(weight), want);

  const NestedAbsmax nested = NestAbsmax(absmax);
  view.nested = true;
  view.absmax = nested.codes;
  view.nested_absmax = std::as_bytes(std::span(nested.absmax));
  view.nested_map = std::as_bytes(std::span(DynamicMap()));
  view.offset = nested.offset;
  weight.absmax = nullptr;
  weight.absmax_codes = Bytes(nested.codes);
  weight.nested_absmax = nested.absmax.data();
  weight.nested_map = DynamicMap().data();
  weight.offset = nested.offset;
  DecodeNf4(view, 0, want);
  ExpectBits(ByLanes(weight), want);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Nf4Lanes,
                         testing::Values(1, 7, 8, 63, 64, 65, 128, 1001, 256 * 64 + 70, 50000));

// Rows that groups of 8 cross, and single columns.
class Int8Lanes : public testing::TestWithParam<std::size_t> {};

TEST_P(Int8Lanes, AreTheDecoder) {
  const std::size_t columns = GetParam(), rows = 37;
  const std::vector<float> values = Weights(rows * columns);
  std::vector<std::byte> codes(values.size());
  std::vector<float> absmax(rows);
  QuantizeInt8(values, columns, codes, absmax);
  const Int8View view{columns, codes, std::as_bytes(std::span(absmax))};
  Int8Codes weight;
  weight.values = values.size();
  weight.columns = columns;
  weight.codes = reinterpret_cast<const std::int8_t*>(codes.data());
  weight.absmax = absmax.data();
  std::vector<float> want(values.size());
  DecodeInt8(view, 0, want);
  ExpectBits(ByLanes(weight), want);
}

INSTANTIATE_TEST_SUITE_P(Columns, Int8Lanes, testing::Values(1, 3, 7, 8, 9, 64, 100));

}  // namespace
}  // namespace shoal::model
