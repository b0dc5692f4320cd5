// What a coder does in fewer passes is what it does in single ones.

#include "replica/collective/chunk_coders.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace shoal::collective {
namespace {

using Bytes = std::vector<std::byte>;
using Values = std::vector<float>;

constexpr compression::RandomKey kKey{7, 3, 2, 1, 0};

Values Random(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = random() % 9 == 0 ? -0.0F : normal(random);
  return values;
}

bool SameBits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

class ChunkCoders : public testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const ChunkCoder> coder_ = MakeChunkCoder(GetParam(), 16).value();
};

TEST_P(ChunkCoders, EncodeKeepingIsEncodeDecodeAndSubtract) {
  for (const std::size_t count : {1, 7, 16, 63, 64, 200, 1000, 2049}) {
    const Values values = Random(count, 1), memory = Random(count, 2);
    for (const bool empty : {false, true}) {
      SCOPED_TRACE(testing::Message() << count << (empty ? " from zeros" : ""));
      Values input = values;
      for (std::size_t i = 0; i < count && !empty; ++i) input[i] += memory[i];
      Bytes payload(coder_->BytesMax(count)), again(payload.size());
      const std::size_t bytes = coder_->Encode(input, kKey, payload).value();
      Values decoded(count), rest = input;
      ASSERT_TRUE(coder_->Decode(std::span(payload).first(bytes), kKey, decoded).ok());
      for (std::size_t i = 0; i < count; ++i) rest[i] -= decoded[i];
      for (const bool decodes : {false, true}) {
        Values next(count), said(decodes ? count : 0);
        const auto kept = coder_->EncodeKeeping(
            values, empty ? std::span<const float>() : std::span<const float>(memory), kKey, again,
            next, said);
        ASSERT_TRUE(kept.ok()) << kept.status().ToString();
        ASSERT_EQ(*kept, bytes);
        EXPECT_EQ(std::memcmp(again.data(), payload.data(), bytes), 0);
        EXPECT_TRUE(SameBits(next, rest));
        EXPECT_TRUE(!decodes || SameBits(said, decoded));
      }
    }
  }
}

TEST_P(ChunkCoders, DecodeOntoIsDecodeScaleAndAdd) {
  for (const std::size_t count : {1, 7, 16, 63, 64, 200, 1000, 2049}) {
    const Values values = Random(count, 3), before = Random(count, 4);
    Bytes payload(coder_->BytesMax(count));
    payload.resize(coder_->Encode(values, kKey, payload).value());
    Values decoded(count);
    ASSERT_TRUE(coder_->Decode(payload, kKey, decoded).ok());
    for (const float factor : {1.0F, 0.3F}) {
      Values scaled = decoded, sum = before;
      for (float& value : scaled) value *= factor;
      for (std::size_t i = 0; i < count; ++i) sum[i] += scaled[i];
      Values out(count, 9.0F);
      ASSERT_TRUE(coder_->DecodeOnto(payload, kKey, factor, true, out).ok());
      EXPECT_TRUE(SameBits(out, scaled)) << count;
      out = before;
      ASSERT_TRUE(coder_->DecodeOnto(payload, kKey, factor, false, out).ok());
      EXPECT_TRUE(SameBits(out, sum)) << count;
    }
  }
}

// A bucket of zeros decodes to +0, which turns -0 into +0 where it is added.
TEST_P(ChunkCoders, ZerosAreLikeOthers) {
  const Values zeros = {0.0F, -0.0F, -0.0F, 0.0F, -0.0F, 0.0F, 0.0F, -0.0F};
  Bytes payload(coder_->BytesMax(8));
  payload.resize(coder_->Encode(zeros, kKey, payload).value());
  Values decoded(8), sum = zeros, out = zeros;
  ASSERT_TRUE(coder_->Decode(payload, kKey, decoded).ok());
  for (std::size_t i = 0; i < 8; ++i) sum[i] += decoded[i] * 0.5F;
  ASSERT_TRUE(coder_->DecodeOnto(payload, kKey, 0.5F, false, out).ok());
  EXPECT_TRUE(SameBits(out, sum));
  Values next(8), said(8);
  Bytes again(coder_->BytesMax(8));
  ASSERT_TRUE(coder_->EncodeKeeping(zeros, zeros, kKey, again, next, said).ok());
  EXPECT_TRUE(SameBits(said, decoded));
}

TEST_P(ChunkCoders, WhatIsWrongIsAnErrorInAllOfThem) {
  const Values values = Random(64, 5);
  Bytes payload(coder_->BytesMax(64));
  payload.resize(coder_->Encode(values, kKey, payload).value());
  payload.pop_back();
  Values sum(64);
  EXPECT_FALSE(coder_->DecodeOnto(payload, kKey, 1, false, sum).ok());
  if (coder_->exact()) return;
  Values bad = values, next(64);
  bad[63] = INFINITY;
  Bytes out(coder_->BytesMax(64));
  EXPECT_FALSE(coder_->EncodeKeeping(bad, values, kKey, out, next, {}).ok());
}

INSTANTIATE_TEST_SUITE_P(All, ChunkCoders,
                         testing::Values("raw:dtype=fp32", "raw:dtype=bf16",
                                         "direct:bits=4,bucket=16", "dithered:step=0.3", "onebit",
                                         "onebit:bucket=64", "onebit:bucket=12"));

}  // namespace
}  // namespace shoal::collective
