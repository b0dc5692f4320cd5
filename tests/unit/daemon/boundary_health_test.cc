#include "daemon/boundary_health.h"

#include <gmock/gmock.h>

namespace shoal::daemon {
namespace {

using compression::DeltaMode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// In the third of four epochs, as it should be.
StatusSnapshot Well() {
  StatusSnapshot s;
  s.epochs = 2.5;
  s.target_epochs = 4;
  pipeline::BoundaryStats end;
  end.boundary = 3;
  end.AddVisits(4, 4, DeltaMode::kDelta);
  end.relative_delta.Add(0.05);
  end.relative_delta_p90.Add(0.1);
  end.forward_error.Add(0.01);
  s.runner.boundaries = {end};
  return s;
}

std::vector<std::string> Codes(const StatusSnapshot& snapshot) {
  std::vector<std::string> codes;
  for (const HealthEntry& entry : BoundaryHealth(snapshot)) {
    codes.push_back(entry.code);
    EXPECT_FALSE(entry.text.empty());
    EXPECT_FALSE(entry.fix.empty());
  }
  return codes;
}

TEST(BoundaryHealthTest, SaysNothingOfWhatIsWell) {
  EXPECT_THAT(Codes(Well()), IsEmpty());
  EXPECT_THAT(Codes(StatusSnapshot{}), IsEmpty());
  StatusSnapshot s = Well();
  s.runner.boundaries[0] = {};  // a codec without m
  EXPECT_THAT(Codes(s), IsEmpty());
}

TEST(BoundaryHealthTest, WhatAGpuLeavesToTheHostIsSaid) {
  StatusSnapshot s = Well();
  s.runner.on_host = {"codec lowrank:rank=4 has no form on a device"};
  EXPECT_THAT(Codes(s), ElementsAre("on_host"));
  EXPECT_EQ(BoundaryHealth(s)[0].text, s.runner.on_host[0]);
}

TEST(BoundaryHealthTest, LargeChangesCountFromTheThirdEpochOn) {
  StatusSnapshot s = Well();
  s.runner.boundaries[0].relative_delta.average = 0.31;
  const auto health = BoundaryHealth(s);
  ASSERT_EQ(health.size(), 1u);
  EXPECT_EQ(health[0].code, "delta_large");
  EXPECT_EQ(health[0].text,
            "in epoch 3 at boundary 3 half of the tokens change by 31 % of their size or more "
            "between visits, a tenth by 10 % or more: aqsgd gains little");
  EXPECT_THAT(health[0].fix, HasSubstr("optimizer.learning_rate"));
  s.epochs = 1.9;
  EXPECT_THAT(Codes(s), IsEmpty());
  s.epochs = 2.5;
  s.runner.boundaries[0].relative_delta.average = 0.3;
  EXPECT_THAT(Codes(s), IsEmpty());
  s.runner.boundaries[0].relative_delta_p90.average = 0.61;  // as the guard judges
  EXPECT_THAT(Codes(s), ElementsAre("delta_large"));
}

TEST(BoundaryHealthTest, AGuardThatActedSpeaksForItself) {
  StatusSnapshot s = Well();
  s.runner.boundaries[0].relative_delta.average = 0.5;
  s.runner.boundaries[0].mode = DeltaMode::kWideDelta;
  EXPECT_THAT(Codes(s), ElementsAre("delta_guard"));
  s.epochs = 1.1;  // at any time
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("changes with twice the bits"));
  s.runner.boundaries[0].mode = DeltaMode::kFull;
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("whole activations"));
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("50 %"));
  s.runner.boundaries[0].side = storage::BoundarySide::kReceiver;  // the other end says it
  EXPECT_THAT(Codes(s), IsEmpty());
}

TEST(BoundaryHealthTest, FirstVisitsInLaterEpochsAreMissesOfTheStore) {
  StatusSnapshot s = Well();
  s.runner.boundaries[0].without_m.average = 0.2;
  EXPECT_THAT(Codes(s), ElementsAre("delta_store_misses"));
  EXPECT_THAT(BoundaryHealth(s)[0].fix, HasSubstr("passes within an epoch"));
  s.delta_store.evicted = 1;
  EXPECT_THAT(BoundaryHealth(s)[0].fix, HasSubstr("limits.delta_store"));
  s.epochs = 1.2;  // the average still remembers the first epoch
  EXPECT_THAT(Codes(s), IsEmpty());
  s.epochs = 2.5;
  s.runner.boundaries[0].mode = DeltaMode::kFull;  // then nothing builds on m anyway
  EXPECT_THAT(Codes(s), ElementsAre("delta_guard"));
}

TEST(BoundaryHealthTest, GradientsWithMAreJudgedByThemselves) {
  StatusSnapshot s = Well();
  pipeline::BoundaryStats& end = s.runner.boundaries[0];
  end.side = storage::BoundarySide::kReceiver;
  end.gradients.emplace().AddVisits(4, 4, DeltaMode::kDelta);
  end.gradients->relative_delta.Add(0.5);
  EXPECT_THAT(Codes(s), IsEmpty()) << "half of a gradient is no large change";
  end.gradients->relative_delta.average = 0.95;
  EXPECT_THAT(Codes(s), ElementsAre("gradient_delta_large"));
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("at boundary 3 gradients change by 95 %"));
  s.epochs = 1.9;
  EXPECT_THAT(Codes(s), IsEmpty());
  end.gradients->without_m.average = 0.5;
  EXPECT_THAT(Codes(s), ElementsAre("delta_store_misses"));
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("50 % of the gradients at boundary 3"));
  s.delta_store.evicted = 1;
  EXPECT_THAT(BoundaryHealth(s)[0].fix, HasSubstr("codecs.backward without m"));
  end.gradients->without_m.average = 0;
  end.gradients->mode = DeltaMode::kFull;  // of a guarded codec; who sends says it
  EXPECT_THAT(Codes(s), ElementsAre("delta_guard"));
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("whole gradients"));
  end.side = storage::BoundarySide::kSender;
  EXPECT_THAT(Codes(s), IsEmpty());
  end = {};
  end.gradients.emplace();
  s.epochs = 0.5;
  s.target_epochs = 1;
  EXPECT_THAT(Codes(s), ElementsAre("aqsgd_single_epoch"));
}

TEST(BoundaryHealthTest, ASingleEpochNeedsNoDeltas) {
  StatusSnapshot s = Well();
  s.epochs = 0.5;
  s.target_epochs = 1;
  EXPECT_THAT(Codes(s), ElementsAre("aqsgd_single_epoch"));
  s.target_epochs = 0;  // not known
  EXPECT_THAT(Codes(s), IsEmpty());
}

TEST(BoundaryHealthTest, ResendsAreMentioned) {
  StatusSnapshot s = Well();
  s.totals.resends = 7;
  EXPECT_THAT(Codes(s), ElementsAre("delta_mismatch"));
  EXPECT_THAT(BoundaryHealth(s)[0].text, HasSubstr("7 samples"));
}

}  // namespace
}  // namespace shoal::daemon
