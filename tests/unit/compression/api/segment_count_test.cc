#include "compression/api/segment_count.h"

#include <gtest/gtest.h>

namespace shoal::compression {
namespace {

std::uint64_t Kept(const char* spec, SampleShape whole, std::uint32_t rows) {
  const auto codec = MakeCodec(spec, whole.hidden);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return codec.ok() ? KeptBytes(**codec, whole, rows) : 0;
}

TEST(SegmentCountTest, EverySegmentOfASampleHasAnImageOfItsOwn) {
  constexpr SampleShape kWhole{1024, 1600};  // 6.25 MiB as fp32: 4 segments
  constexpr std::uint64_t kValues = 1024ull * 1600;
  EXPECT_EQ(Kept("aqsgd:bits=4", kWhole, 1), 4 * 16 + 2 * kValues);
  // A header and a scale per channel, in each of them.
  EXPECT_EQ(Kept("aqsgd:bits=4,m=8", kWhole, 1), 4 * (16 + 2 * 1600) + kValues);
  EXPECT_EQ(Kept("aqsgd:bits=4,m=4", kWhole, 1), 4 * (16 + 2 * 1600) + kValues / 2);
  EXPECT_EQ(Kept("aqsgd:bits=4,m=2", kWhole, 1), 4 * (16 + 2 * 1600) + kValues / 4);
  // Two of 1.5625 MiB, and one.
  EXPECT_EQ(Kept("aqsgd:bits=4,m=8", {512, 1600}, 1), 2 * (16 + 2 * 1600) + kValues / 2);
  EXPECT_EQ(Kept("aqsgd:bits=4,m=8", {256, 1600}, 1), 16 + 2 * 1600 + kValues / 4);
  // More rows are more bytes in a segment.
  EXPECT_EQ(Kept("aqsgd:bits=4,m=8", {256, 1600}, 2), 2 * (16 + 2 * 1600) + kValues / 4);
}

TEST(SegmentCountTest, OnlyCodecsThatKeepSomethingTakeSpace) {
  EXPECT_EQ(Kept("direct:bits=4", {1024, 1600}, 1), 0u);
  EXPECT_EQ(Kept("raw:dtype=fp32", {1024, 1600}, 1), 0u);
  EXPECT_GT(Kept("direct:bits=2,feedback=on", {1024, 1600}, 1), 4 * 16u);
}

TEST(SegmentCountTest, WhatCannotBeDividedIsOne) {
  const auto whole = MakeCodec("direct:bits=8,bucket=channel", 1600);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(SegmentCount(**whole, {1024, 1600}, 1), 1u);
  const auto parts = MakeCodec("direct:bits=8", 1600);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(SegmentCount(**parts, {1024, 1600}, 1), 4u);
  EXPECT_EQ(SegmentCount(**parts, {1022, 1600}, 1), 2u);
  EXPECT_EQ(SegmentCount(**parts, {1023, 1600}, 1), 1u);
}

}  // namespace
}  // namespace shoal::compression
