// Pins the bytes of low-rank changes and the arithmetic on them (docs/WIRE.md, "Low-rank
// changes"). Bytes and values were made by a program that was written from the document alone. A
// change here is a change of the wire: it needs a new layout version.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compression/codecs/low_rank/change_section.h"
#include "compression/codecs/low_rank/low_rank_changes.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShape{3, 5};
constexpr std::size_t kHeaderBytes = 16;

// Three samples: two columns with a loud token, nothing, and codes of 13 to 16 bits.
constexpr char kSection[] =
    "0c020001000000002d00000000000000090000001100000000300000000000000002fac1004000769f7f8e"
    "4f5cf907c809001900000000857d80848079818281827f7f8180837edd2280ce7f80b000";

const std::vector<std::vector<float>> kValues = {
    {0x1p+1F, 0x1p-1F, -0x1.18p+2F, 0x1.1p+1F, 0x1p-2F, -0x1.4p+4F, 0x1p+3F, 0x1.5p+4F, 0x1.5p+4F,
     -0x1.6p+4F, 0x1p-1F, -0x1p-1F, 0, -0x1.8p+0F, 0x1p+0F},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0x1.ca03f4p+5F, -0x1.77p-9F, 0, 0x1.1a8dfcp+5F, -0x1.76fd12p+6F, -0x1.ca2b0ap+5F, 0x1.772p-9F,
     0, -0x1.1aa618p+5F, 0x1.771d12p+6F, 0x1.4c36cp-2F, -0x1.1p-16F, 0, 0x1.99e48p-3F,
     -0x1.0ffdep-1F}};

std::vector<ChangeFactors> Factors() {
  std::vector<ChangeFactors> samples(3);
  samples[0].rank = 2;
  samples[0].exponent = -3;
  samples[0].steps = {0, 2};
  samples[0].token_exponents = {0, 3, 0};
  samples[0].left = {5, -3, 0, 1, 2, -1};
  samples[0].right = {4, 0, -7, 1, 2, -1, 1, 0, 3, -2};
  samples[1].token_exponents = {0, 0, 0};
  samples[2].rank = 1;
  samples[2].exponent = -20;
  samples[2].steps = {0};
  samples[2].token_exponents = {0, 0, 0};
  samples[2].left = {3000, -3001, 17};
  samples[2].right = {20011, -1, 0, 12345, -32767};
  return samples;
}

std::vector<std::byte> Bytes(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(LowRankChangesGolden, FactorsBecomeTheseBytes) {
  std::vector<std::byte> out(ChangeSectionBytesMax(kShape, 3, 3));
  out.resize(WriteChangeSection(Factors(), kShape, out));
  const auto all = Bytes(kSection);
  EXPECT_EQ(out, std::vector<std::byte>(all.begin() + kHeaderBytes, all.end()));
}

TEST(LowRankChangesGolden, BytesBecomeTheseFactors) {
  const auto bytes = Bytes(kSection);
  const auto read =
      ReadChangeSection(std::span(bytes).subspan(kHeaderBytes), kShape, 3, 3, "lowrank");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const auto want = Factors();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ((*read)[i].rank, want[i].rank);
    EXPECT_EQ((*read)[i].exponent, want[i].exponent);
    EXPECT_EQ((*read)[i].steps, want[i].steps);
    EXPECT_EQ((*read)[i].token_exponents, want[i].token_exponents);
    EXPECT_EQ((*read)[i].left, want[i].left);
    EXPECT_EQ((*read)[i].right, want[i].right);
  }
}

TEST(LowRankChangesGolden, BytesBecomeTheseValuesAtEveryLevel) {
  const LowRankChanges codec({});
  AtEveryLevel([&] {
    std::vector<std::vector<float>> got(3, std::vector<float>(kShape.values(), 7.0F));
    const std::vector<std::span<float>> targets(got.begin(), got.end());
    const Status status = codec.Decode(Bytes(kSection), kShape, {}, targets);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(got, kValues);
  });
}

}  // namespace
}  // namespace shoal::compression
