#include "pipeline/core/segments.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "pipeline/boundary/activation_link.h"

namespace shoal::pipeline {
namespace {

using compression::SampleShape;

constexpr std::uint64_t kMiB = 1 << 20;

Segments Of(const char* spec, SampleShape whole, std::uint32_t rows, std::uint64_t bytes_min) {
  const auto codec = compression::MakeCodec(spec, whole.hidden);
  EXPECT_TRUE(codec.ok()) << spec;
  return Divide(**codec, whole, rows, bytes_min);
}

TEST(SegmentsTest, AsManyAsTokensAndSizeAllow) {
  const struct {
    SampleShape whole;
    std::uint32_t rows;
    std::uint64_t bytes_min;
    std::uint32_t count;
  } cases[] = {
      {{1024, 1600}, 1, kMiB, 4},  // 6.25 MiB
      {{1024, 768}, 1, kMiB, 2},   // 3 MiB
      {{1024, 256}, 1, kMiB, 1},
      {{1024, 256}, 4, kMiB, 4},  // exactly 1 MiB each
      {{1024, 256}, 4, kMiB + 1, 2},
      {{1022, 1600}, 1, kMiB, 2},
      {{1023, 1600}, 1, kMiB, 1},
      {{1, 1u << 20}, 64, kMiB, 1},
      {{4, 8}, 1, 1, 4},
      {{1u << 20, 1u << 20}, 1u << 20, kMiB, 4},
  };
  for (const auto& c : cases) {
    const Segments segments = Of("raw:dtype=fp32", c.whole, c.rows, c.bytes_min);
    EXPECT_EQ(segments.count, c.count) << c.whole.tokens << " x " << c.whole.hidden;
    EXPECT_EQ(segments.shape.tokens * segments.count, c.whole.tokens);
    EXPECT_EQ(segments.shape.hidden, c.whole.hidden);
  }
}

TEST(SegmentsTest, CodecsThatMeanTheWholeMessageAreNotDivided) {
  const struct {
    const char* spec;
    bool divisible;
  } cases[] = {
      {"raw:dtype=fp16", true},
      {"direct:bits=6", true},
      {"direct+rans:bits=6", true},
      {"direct:bits=6,feedback=on", true},
      {"direct:bits=6,bucket=channel", false},
      {"tiles:bits=4", true},
      {"tiles:bits=4,adaptive=on", false},
      {"topk:ratio=0.1,bits=8", false},
      {"topk:ratio=0.1,bits=8,feedback=on", false},
      {"dithered:step=1", true},
      {"dithered:rate=2", false},
      {"dithered:error=0.5", false},
      {"aqsgd:bits=3", true},
      {"aqsgd+zstd:bits=2,m=8", true},
      {"aqsgd:bits=3,bucket=channel", false},
      {"aqsgd:delta=topk:ratio=0.2/bits=8", false},
      {"aqsgd:bits=3,first_visit=topk:ratio=0.5/bits=8", false},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Of(c.spec, {1024, 1600}, 1, kMiB).count, c.divisible ? 4u : 1u) << c.spec;
  }
}

TEST(SegmentsTest, EverySegmentHasItsOwnIdKeyAndTransfer) {
  DirectionConfig direction;
  direction.segments = {4, {256, 1600}};
  std::set<std::uint64_t> ids;
  std::set<std::uint32_t> keys;
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (std::uint32_t k = 0; k < 4; ++k) {
      ids.insert(direction.segments.IdOf({i}, k).value);
      keys.insert(direction.Key(7, i, k).micro_batch);
      const std::uint32_t transfer = direction.segments.Transfer(i, k);
      EXPECT_EQ(direction.segments.MicroBatch(transfer), i);
      EXPECT_EQ(direction.segments.Segment(transfer), k);
    }
  }
  EXPECT_EQ(ids.size(), 20u);
  EXPECT_EQ(keys.size(), 20u);
  EXPECT_EQ(direction.segments.IdsOf({{3}, {9}}, 2), (std::vector<SegmentId>{{14}, {38}}));
  const Segments whole{1, {1024, 1600}};
  EXPECT_EQ(whole.IdOf({12345}, 0), SegmentId{12345});
  direction.segments = whole;
  EXPECT_EQ(direction.Key(7, 3, 0).micro_batch, 3u);
}

TEST(SegmentsTest, AFrameNamesASegmentThatThereIs) {
  DirectionConfig direction;
  direction.segments = {2, {4, 8}};
  net::Frame frame;
  frame.tag = 1;
  EXPECT_EQ(SegmentOf(frame, direction).value(), 1u);
  for (const std::uint64_t tag : {std::uint64_t{2}, std::uint64_t{1} << 32, UINT64_MAX}) {
    frame.tag = tag;
    EXPECT_EQ(SegmentOf(frame, direction).status().code(), StatusCode::kInvalidArgument) << tag;
  }
}

TEST(SegmentedVisitsTest, ASampleIsAChangeIfAllItsSegmentsAre) {
  SegmentedVisits visits(4, 3);
  EXPECT_FALSE(visits.Add({}));
  EXPECT_FALSE(visits.Add({1, 2}));
  EXPECT_FALSE(visits.complete());
  EXPECT_TRUE(visits.Add({2}));
  EXPECT_TRUE(visits.complete());
  EXPECT_EQ(visits.samples(), 4u);
  EXPECT_EQ(visits.deltas(), 2u);
}

}  // namespace
}  // namespace shoal::pipeline
