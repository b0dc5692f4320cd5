#include "daemon/applied_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shoal::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AppliedStepsTest : public ::testing::Test {
 protected:
  void Order(std::uint64_t step, bool check, bool checkpoint) {
    control::v1::Apply apply;
    apply.set_step(step);
    apply.set_check_weights(check);
    apply.set_checkpoint(checkpoint);
    steps_.OnOrder(apply);
  }
  void Applied(std::uint64_t step) {
    control::v1::PeerMessage message;
    message.mutable_applied()->set_step(step);
    steps_.OnApplied(step, std::move(message));
  }
  void Saved(std::uint64_t step) {
    steps_.OnSaved(step, [this, step] { log_.push_back("saved " + std::to_string(step)); });
  }

  std::vector<std::string> log_;
  AppliedSteps steps_{[this](const control::v1::PeerMessage& message) {
    const auto& applied = message.applied();
    log_.push_back("applied " + std::to_string(applied.step()) +
                   (applied.weight_checksum() != 0
                        ? " weights " + std::to_string(applied.weight_checksum())
                        : ""));
  }};
};

TEST_F(AppliedStepsTest, WithoutAnOrderAStepIsToldAtOnce) {
  Order(3, false, false);
  EXPECT_EQ(steps_.Find(3), nullptr);
  Applied(3);
  EXPECT_THAT(log_, ElementsAre("applied 3"));
}

TEST_F(AppliedStepsTest, WeightsAreToldWithTheStepWhicheverComesFirst) {
  Order(1, true, false);
  Applied(1);
  EXPECT_THAT(log_, IsEmpty());
  steps_.OnChecksum(1, 7);
  Order(2, true, false);
  steps_.OnChecksum(2, 8);
  Applied(2);
  EXPECT_THAT(log_, ElementsAre("applied 1 weights 7", "applied 2 weights 8"));
  EXPECT_EQ(steps_.Find(1), nullptr);
}

// The m of a step reached a slow disk behind the next Apply: its checkpoint was forgotten, and two
// such steps kept a run from ever saving again.
TEST_F(AppliedStepsTest, ACheckpointIsNotForgottenWhenTheNextApplyComesFirst) {
  Order(9, false, true);
  ASSERT_NE(steps_.Find(9), nullptr);
  Order(10, true, false);
  ASSERT_NE(steps_.Find(9), nullptr);
  steps_.OnChecksum(9, 5);
  Saved(9);
  EXPECT_THAT(log_, IsEmpty());
  Applied(9);
  EXPECT_THAT(log_, ElementsAre("applied 9 weights 5", "saved 9"));
  steps_.OnChecksum(10, 6);
  Applied(10);
  EXPECT_THAT(log_, ElementsAre("applied 9 weights 5", "saved 9", "applied 10 weights 6"));
}

TEST_F(AppliedStepsTest, ASaveThatEndsLateIsToldBehindItsStep) {
  Order(4, false, true);
  steps_.OnChecksum(4, 1);
  Applied(4);
  EXPECT_THAT(log_, ElementsAre("applied 4 weights 1"));
  Saved(4);
  EXPECT_THAT(log_, ElementsAre("applied 4 weights 1", "saved 4"));
  EXPECT_EQ(steps_.Find(4), nullptr);
  Saved(4);  // of nothing
  EXPECT_EQ(log_.size(), 2U);
}

TEST_F(AppliedStepsTest, WhatIsSavedIsReportedWhereNothingMoreIsToldOfSteps) {
  Order(1, true, true);
  Saved(1);
  EXPECT_THAT(log_, IsEmpty());
  steps_.ReportSaved();
  EXPECT_THAT(log_, ElementsAre("saved 1"));
  steps_.ReportSaved();
  EXPECT_EQ(log_.size(), 1U);
}

}  // namespace
}  // namespace shoal::daemon
