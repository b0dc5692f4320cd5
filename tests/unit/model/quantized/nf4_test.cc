// NF4 against bitsandbytes' codes and decoded values, and against the definition.

#include "model/quantized/nf4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "model/quantized/stored_weight.h"
#include "tests/unit/model/quantized/golden_weights.h"

namespace shoal::model {
namespace {

// Blocks of very different sizes, one of zeros; values on and beside the borders of codes.
std::vector<float> AwkwardValues(std::size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t block = i / kNf4Block;
    values[i] = normal(random) * std::ldexp(1.0F, static_cast<int>(block % 40) - 20);
    if (block % 7 == 2) values[i] = 0;
    if (block % 7 == 4) {  // absmax 1, then means of neighbours
      const std::size_t code = i % 15;
      values[i] = i % kNf4Block == 0 ? 1.0F : (kNf4Values[code] + kNf4Values[code + 1]) / 2;
      if (i % 2 == 1) values[i] = std::nextafter(values[i], 2.0F);
    }
  }
  return values;
}

struct Quantized {
  explicit Quantized(std::span<const float> values)
      : codes((values.size() + 1) / 2), absmax((values.size() + kNf4Block - 1) / kNf4Block) {
    QuantizeNf4(values, codes, absmax);
  }
  std::vector<std::byte> codes;
  std::vector<float> absmax;
};

std::size_t CodeOf(std::span<const std::byte> codes, std::size_t value) {
  const auto byte = std::to_integer<std::size_t>(codes[value / 2]);
  return value % 2 == 0 ? byte >> 4 : byte & 15;
}

TEST(Nf4, TablesAreBitsandbytes) {
  const auto golden = Golden("nf4");
  EXPECT_EQ(BytesOf(kNf4Values), Bytes(golden->tensors().at("weight.quant_map").data));
  EXPECT_EQ(BytesOf(DynamicMap()), Bytes(golden->tensors().at("weight.nested_quant_map").data));
}

TEST(Nf4, CodesAndAbsmaxesAreBitsandbytes) {
  for (const std::string& name : kNf4Cases) {
    const auto golden = Golden(name);
    const Quantized ours(Floats(golden->tensors().at("source")));
    EXPECT_EQ(ours.codes, Bytes(golden->tensors().at("weight").data)) << name;
    EXPECT_EQ(ours.absmax, Floats(golden->tensors().at("block_absmax"))) << name;
  }
}

TEST(Nf4, EachCodeIsTheNearestValue) {
  const auto values = AwkwardValues(100 * kNf4Block + 7);
  const Quantized ours(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double absmax = ours.absmax[i / kNf4Block];
    double least = std::numeric_limits<double>::infinity();
    for (const float value : kNf4Values) {
      least = std::min(least, std::fabs(value * absmax - values[i]));
    }
    const double distance = std::fabs(kNf4Values[CodeOf(ours.codes, i)] * absmax - values[i]);
    // A value between two codes may round to either side of the border in fp32.
    ASSERT_LE(distance, least + 1e-7 * absmax) << i;
    ASSERT_TRUE(absmax != 0 || CodeOf(ours.codes, i) == 7) << i;
  }
}

TEST(Nf4, PiecesOfWholeBlocksAreTheWhole) {
  const auto values = AwkwardValues(10 * kNf4Block + 33);
  const std::span<const float> all = values;
  const Quantized whole(all);
  const Quantized head(all.first(4 * kNf4Block));
  const Quantized tail(all.subspan(4 * kNf4Block));
  auto codes = head.codes;
  codes.insert(codes.end(), tail.codes.begin(), tail.codes.end());
  EXPECT_EQ(codes, whole.codes);
  EXPECT_EQ(std::vector<float>(whole.absmax.begin() + 4, whole.absmax.end()), tail.absmax);
}

TEST(Nf4, NestedAbsmaxesAreBitsandbytesOrNearer) {
  const std::array<float, 256>& map = DynamicMap();
  for (const std::string name : {"nf4", "nf4_special", "nf4_odd", "nf4_bf16"}) {
    const auto golden = Golden(name);
    const auto& tensors = golden->tensors();
    const auto absmax = Floats(tensors.at("block_absmax"));
    const StoredWeight theirs = FindWeight(tensors, "weight", tensors.at("source").shape).value();
    const NestedAbsmax ours = NestAbsmax(absmax);
    // torch adds in fp32.
    EXPECT_NEAR(ours.offset, theirs.nf4.offset, 2e-7F * ours.offset) << name;
    const auto their_scales = Floats(tensors.at("weight.nested_absmax"));
    ASSERT_EQ(ours.absmax.size(), their_scales.size()) << name;
    std::size_t others = 0;
    for (std::size_t i = 0; i < absmax.size(); ++i) {
      const float scale = ours.absmax[i / kNf4NestedBlock];
      EXPECT_NEAR(scale, their_scales[i / kNf4NestedBlock], 1e-6F * scale) << name;
      const auto code = std::to_integer<std::size_t>(ours.codes[i]);
      const auto their_code = std::to_integer<std::size_t>(theirs.nf4.absmax[i]);
      others += code != their_code ? 1 : 0;
      const auto distance = [&](std::size_t of) {
        return std::fabs(double{map[of]} * scale + ours.offset - absmax[i]);
      };
      for (std::size_t any = 0; any < map.size(); ++any) {
        ASSERT_LE(distance(code), distance(any) + 2e-7 * scale) << name << ' ' << i;
      }
    }
    EXPECT_LE(others, absmax.size() / 50) << name;
  }
}

TEST(Nf4, DecodesToBitsandbytesBits) {
  for (const std::string& name : kNf4Cases) {
    const auto golden = Golden(name);
    const storage::TensorView& wanted = golden->tensors().at("decoded");
    const StoredWeight weight = FindWeight(golden->tensors(), "weight", wanted.shape).value();
    std::vector<float> decoded(weight.values);
    DecodeNf4(weight.nf4, 0, decoded);
    std::vector<std::byte> bytes(wanted.data.size());
    // bitsandbytes rounds to the source's dtype.
    EXPECT_EQ(storage::WriteFloats(wanted.dtype, decoded, bytes), std::nullopt) << name;
    EXPECT_EQ(bytes, Bytes(wanted.data)) << name;
  }
}

TEST(Nf4, AnyRangeDecodesAlike) {
  const auto golden = Golden("nf4_odd");
  const StoredWeight weight =
      FindWeight(golden->tensors(), "weight", golden->tensors().at("source").shape).value();
  std::vector<float> whole(weight.values);
  DecodeNf4(weight.nf4, 0, whole);
  std::vector<float> part;
  for (std::size_t first = 0; first <= whole.size(); ++first) {
    for (std::size_t count = 0; count <= whole.size() - first; ++count) {
      part.assign(count + 1, 9);
      DecodeNf4(weight.nf4, first, std::span(part).first(count));
      ASSERT_EQ(part.back(), 9);
      part.pop_back();
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first))
          << first << ' ' << count;
    }
  }
}

TEST(Nf4, ReadsUnalignedBytes) {
  const auto golden = Golden("nf4");
  StoredWeight weight =
      FindWeight(golden->tensors(), "weight", golden->tensors().at("source").shape).value();
  std::vector<float> aligned(weight.values), shifted(weight.values);
  DecodeNf4(weight.nf4, 0, aligned);
  const auto shift = [](std::span<const std::byte>* bytes, std::vector<std::byte>* copy) {
    copy->assign(bytes->size() + 1, std::byte{0});
    std::copy(bytes->begin(), bytes->end(), copy->begin() + 1);
    *bytes = std::span<const std::byte>(*copy).subspan(1);
  };
  std::vector<std::byte> copies[4];
  shift(&weight.nf4.codes, &copies[0]);
  shift(&weight.nf4.absmax, &copies[1]);
  shift(&weight.nf4.nested_absmax, &copies[2]);
  shift(&weight.nf4.nested_map, &copies[3]);
  DecodeNf4(weight.nf4, 0, shifted);
  EXPECT_EQ(aligned, shifted);
}

}  // namespace
}  // namespace shoal::model
