#include "pipeline/boundary/sent_stats.h"

#include <gtest/gtest.h>

namespace shoal::pipeline {
namespace {

constexpr std::uint32_t kSegments = 2;

class SentStatsTest : public testing::Test {
 protected:
  static DirectionConfig Direction(const char* spec) {
    DirectionConfig direction;
    direction.boundary = 3;
    direction.codec = compression::MakeCodec(spec, 8).value();
    direction.segments.count = kSegments;
    direction.segments.shape = {4, 8};
    return direction;
  }
  // Both segments of a micro-batch of two samples: each changed by `change` of its norm.
  void Send(std::uint32_t micro_batch, double change) {
    compression::CodingStats stats{.values = 1, .errors = 0.01, .changes = {}};
    for (int token = 0; token < 8; ++token) stats.changes.Count(change * change, 1);
    sent_.Begin(micro_batch, 2);
    EXPECT_FALSE(sent_.Add(micro_batch, 0, stats, {}));
    EXPECT_TRUE(sent_.Add(micro_batch, 1, stats, {}));
  }

  TransferStats totals_;
  BoundaryStats seen_;
  SentStats sent_{Direction("aqsgd:bits=2"), &totals_, &seen_};
};

TEST_F(SentStatsTest, ASampleCountsAsAChangeIfAllOfItsSegmentsDo) {
  sent_.StartStep(1);
  sent_.Begin(0, 3);
  EXPECT_FALSE(sent_.Add(0, 1, {}, {2}));
  EXPECT_EQ(totals_.first_visits, 0u);
  EXPECT_TRUE(sent_.Add(0, 0, {}, {0, 2}));
  EXPECT_EQ(totals_.first_visits, 2u);
  EXPECT_EQ(totals_.delta_hits, 1u);
  EXPECT_EQ(seen_.delta_hits, 1u);
}

TEST_F(SentStatsTest, WhatIsSentAgainIsAFirstVisitOnceForAllSegments) {
  sent_.StartStep(1);
  sent_.AddAgain(1, {.values = 1, .errors = 0.04, .changes = {}});
  sent_.AddAgain(0, {.values = 1, .errors = 0.04, .changes = {}});
  EXPECT_EQ(totals_.first_visits, 1u);
  EXPECT_EQ(seen_.forward_error.messages, 2u);
  EXPECT_NEAR(seen_.forward_error.last, 0.2, 1e-12);
}

TEST_F(SentStatsTest, TheModeChangesBetweenStepsOnly) {
  const std::uint32_t patience = compression::DeltaGuard::kPatience;
  sent_.StartStep(patience + 1);
  for (std::uint32_t i = 0; i <= patience; ++i) {
    Send(i, 0.5);
    EXPECT_EQ(sent_.mode(), compression::DeltaMode::kDelta);
  }
  sent_.StartStep(1);
  EXPECT_EQ(sent_.mode(), compression::DeltaMode::kWideDelta);
  EXPECT_NEAR(seen_.relative_delta.average, 0.5, 0.5 / 9);
  EXPECT_GE(seen_.relative_delta_p90.average, seen_.relative_delta.average);
}

// A step that does not count is no reason to change the mode; one that does counts elsewhere, too.
TEST_F(SentStatsTest, AnotherGenerationGoesOnFromTheStepsThatCount) {
  const std::uint32_t patience = compression::DeltaGuard::kPatience;
  sent_.StartStep(patience + 1);
  for (std::uint32_t i = 0; i <= patience; ++i) Send(i, 0.5);
  SentStats before(Direction("aqsgd:bits=2"), &totals_, &seen_);
  before.GoOnFrom(sent_.guard());
  EXPECT_EQ(before.mode(), compression::DeltaMode::kDelta);
  sent_.Commit();
  SentStats behind(Direction("aqsgd:bits=2"), &totals_, &seen_);
  behind.GoOnFrom(sent_.guard());
  EXPECT_EQ(behind.mode(), compression::DeltaMode::kWideDelta);
  EXPECT_EQ(behind.guard().relative_delta(), sent_.guard().relative_delta());
  sent_.StartStep(1);
  EXPECT_EQ(sent_.mode(), compression::DeltaMode::kWideDelta) << "counted once";
}

TEST_F(SentStatsTest, ACodecWithoutMCountsErrorsAlone) {
  SentStats gradients(Direction("dithered:step=0.5"), &totals_, &seen_);
  gradients.StartStep(1);
  gradients.Begin(0, 2);
  gradients.Add(0, 0, {.values = 1, .errors = 0.25, .changes = {}}, {0, 1});
  gradients.Add(0, 1, {.values = 1, .errors = 0.25, .changes = {}}, {0, 1});
  EXPECT_EQ(totals_.first_visits, 0u);
  EXPECT_NEAR(seen_.forward_error.last, 0.5, 1e-12);
}

}  // namespace
}  // namespace shoal::pipeline
