#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "replica/collective/chunk_coders.h"

namespace shoal::collective {
namespace {

using Bytes = std::vector<std::byte>;

std::shared_ptr<const ChunkCoder> Coder(const char* spec) {
  return MakeChunkCoder(spec, 1024).value();
}

Bytes Encoded(const ChunkCoder& coder, const std::vector<float>& values) {
  Bytes payload(coder.BytesMax(values.size()));
  const auto bytes = coder.Encode(values, {}, payload);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  if (bytes.ok()) payload.resize(*bytes);
  return payload;
}

std::vector<float> Decoded(const ChunkCoder& coder, const Bytes& payload, std::size_t count) {
  std::vector<float> values(count);
  const Status status = coder.Decode(payload, {}, values);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return values;
}

TEST(OneBitCoderTest, LayoutIsPinned) {
  // Bucket of 4: rms 5 and 2; the ninth value is a bucket of its own, of scale 0.5.
  const auto coder = Coder("onebit:bucket=4");
  const std::vector<float> values{1, -7, 5, 5, -2, 2, -2, 2, -0.5f};
  const Bytes payload = Encoded(*coder, values);
  const unsigned char expected[] = {0, 0, 0xa0, 0x40, 0, 0, 0, 0x40, 0, 0, 0, 0x3f, 0xad, 0x00};
  ASSERT_EQ(payload.size(), sizeof(expected));
  EXPECT_EQ(std::memcmp(payload.data(), expected, sizeof(expected)), 0);
  EXPECT_EQ(Decoded(*coder, payload, 9), (std::vector<float>{5, -5, 5, 5, -2, 2, -2, 2, -0.5f}));
  EXPECT_EQ(coder->spec(), "onebit:bucket=4");
}

TEST(OneBitCoderTest, EqualsTheObviousReferenceForEverySizeAndBucket) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.1f, 3);
  for (const char* spec : {"onebit", "onebit:bucket=1", "onebit:bucket=3", "onebit:bucket=64"}) {
    const auto coder = Coder(spec);
    for (std::size_t count = 1; count <= 200; ++count) {
      std::vector<float> values(count);
      for (float& value : values) value = normal(random);
      const auto decoded = Decoded(*coder, Encoded(*coder, values), count);
      const std::size_t bucket =
          std::string(spec) == "onebit" ? count : std::stoul(std::string(spec).substr(14));
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t first = i / bucket * bucket, end = std::min(count, first + bucket);
        double squares = 0;
        for (std::size_t k = first; k < end; ++k) squares += double{values[k]} * values[k];
        const double scale = std::sqrt(squares / static_cast<double>(end - first));
        EXPECT_NEAR(decoded[i], values[i] < 0 ? -scale : scale, 1e-6 * scale) << spec << i;
      }
    }
  }
}

TEST(OneBitCoderTest, ZerosArePositiveAndABucketOfZerosStaysZero) {
  const auto coder = Coder("onebit");
  const auto decoded = Decoded(*coder, Encoded(*coder, {0.0f, -0.0f, 3.0f, -3.0f}), 4);
  EXPECT_GT(decoded[0], 0);
  EXPECT_GT(decoded[1], 0);
  for (const float value : Decoded(*coder, Encoded(*coder, {0.0f, -0.0f, -1e-44f}), 3)) {
    EXPECT_EQ(value, 0);
    EXPECT_FALSE(std::signbit(value));
  }
}

TEST(OneBitCoderTest, TheLargestValuesKeepAFiniteScale) {
  const auto coder = Coder("onebit");
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> values(1000, most);
  EXPECT_EQ(Decoded(*coder, Encoded(*coder, values), 1000), values);
}

TEST(OneBitCoderTest, WhatIsNotFiniteIsRefused) {
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (const std::size_t at : {0u, 7u, 8u, 20u}) {
      std::vector<float> values(21, 1.0f);
      values[at] = bad;
      Bytes payload(100);
      EXPECT_EQ(Coder("onebit:bucket=8")->Encode(values, {}, payload).status().code(),
                StatusCode::kInvalidArgument);
    }
  }
}

TEST(OneBitCoderTest, ForeignPayloadsAreChecked) {
  const auto coder = Coder("onebit");
  const Bytes good = Encoded(*coder, {1, 2, 3});
  std::vector<float> values(3);
  const auto accepted = [&](Bytes payload) { return coder->Decode(payload, {}, values).ok(); };
  EXPECT_TRUE(accepted(good));
  const auto with = [&](std::uint32_t scale, int signs) {
    Bytes payload = good;
    std::memcpy(payload.data(), &scale, sizeof(scale));
    payload[4] = static_cast<std::byte>(signs);
    return accepted(payload);
  };
  EXPECT_TRUE(with(0x00800000, 7));
  EXPECT_FALSE(with(0x007fffff, 7));  // subnormal
  EXPECT_FALSE(with(0x7f800000, 7));  // infinite
  EXPECT_FALSE(with(0x7fc00000, 7));  // not a number
  EXPECT_FALSE(with(0xbf800000, 7));  // negative
  EXPECT_FALSE(with(0x80000000, 7));  // -0
  EXPECT_FALSE(with(0x3f800000, 8));  // a bit behind the last value
  Bytes longer = good;
  longer.push_back({});
  EXPECT_FALSE(accepted(longer));
  EXPECT_FALSE(accepted(Bytes(good.begin(), good.end() - 1)));
  EXPECT_FALSE(accepted({}));
}

}  // namespace
}  // namespace shoal::collective
