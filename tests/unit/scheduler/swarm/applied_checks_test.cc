#include "scheduler/swarm/applied_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

struct Applied : SwarmParts {
  Applied(std::uint32_t stages, std::uint32_t pipelines) : SwarmParts(stages, pipelines) {
    JoinAll(stages * pipelines);
    Train();
    Apply(1);
  }
  // A report of weights after the newest step.
  void Weights(std::uint32_t pipeline, std::uint64_t checksum) {
    control::v1::Applied report;
    report.set_step(history.step() - 1);
    report.set_weight_checksum(checksum);
    EXPECT_TRUE(applied.OnApplied(At(pipeline, 0), report).ok());
  }
};

TEST(AppliedChecks, ABoundaryOfAnotherStageIsRefused) {
  Applied parts(3, 1);
  control::v1::Applied report;
  control::v1::BoundaryChecksum* const end = report.add_boundaries();
  const auto accepted = [&](std::uint32_t stage, std::uint32_t boundary, bool receiver) {
    end->set_boundary(boundary);
    end->set_receiver(receiver);
    return parts.applied.OnApplied(parts.At(0, stage), report).ok();
  };
  EXPECT_TRUE(accepted(0, 0, false));
  EXPECT_TRUE(accepted(1, 0, true));
  EXPECT_TRUE(accepted(2, 1, true));
  EXPECT_FALSE(accepted(1, 0, false));
  EXPECT_FALSE(accepted(2, 2, false)) << "behind the last stage is no boundary";
  EXPECT_EQ(parts.applied.counts().m_checks(), 1u);
  report.set_step(1);
  EXPECT_TRUE(accepted(1, 0, false)) << "of a step that is not applied: not looked at";
}

TEST(AppliedChecks, AMemberThatDiffersTakesTheMajoritysWeightsWithTheNextPlan) {
  Applied parts(1, 3);
  for (const std::uint32_t p : {0u, 1u, 2u}) parts.Weights(p, p == 0 ? 8 : 9);
  EXPECT_TRUE(parts.lifecycle.active());
  ASSERT_TRUE(parts.lifecycle.ending());
  EXPECT_THAT(parts.applied.last_difference(), HasSubstr("peer1"));
  parts.uploads.Begin();
  parts.reaction.Take();
  for (const std::uint32_t p : {0u, 1u, 2u}) {
    parts.uploads.OnDone(&parts.At(p, 0), parts.SavedFiles(0, parts.history.step()));
  }
  parts.uploads.Look();
  std::set<ConnectionId> asked;
  for (const SendTo& sent : parts.Take<SendTo>()) asked.insert(sent.connection);
  EXPECT_EQ(asked, (std::set<ConnectionId>{2, 3})) << "the others upload the next checkpoint";
}

TEST(AppliedChecks, ACheckpointThatItUploadedIsDropped) {
  Applied parts(1, 3);
  parts.uploads.Begin();
  for (const std::uint32_t p : {0u, 1u, 2u}) {
    parts.uploads.OnDone(&parts.At(p, 0), parts.SavedFiles(0, parts.history.step()));
  }
  parts.uploads.Look();
  for (const SendTo& sent : parts.Take<SendTo>()) {
    const auto& files = sent.message.want_artefacts().files();
    if (!files.empty()) parts.uploads.OnHere(files[0].hash());
  }
  parts.lifecycle.EndSoon("anna hands over");
  parts.Apply(1);
  for (const std::uint32_t p : {0u, 1u, 2u}) parts.Weights(p, p == 0 ? 8 : 9);
  EXPECT_EQ(parts.lifecycle.ending()->from, 2u) << "the next checkpoint ends the generation";
}

TEST(AppliedChecks, WithoutAMajorityAllGoBack) {
  Applied parts(1, 2);
  for (const std::uint32_t p : {0u, 1u}) parts.Weights(p, 8 + p);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("no majority"));
}

TEST(AppliedChecks, WhoDiffersAgainAndAgainGoesIntoQuarantine) {
  Applied parts(1, 3);
  const PeerId odd = parts.At(1, 0).peer;
  for (std::uint32_t i = 1; i <= parts.config.quarantine_after; ++i) {
    for (int step = 0; step < 2; ++step) {  // within a generation it counts once
      for (const std::uint32_t p : {0u, 1u, 2u}) parts.Weights(p, p == 1 ? 8 : 9);
      parts.Apply(1);
    }
    if (i == parts.config.quarantine_after) break;
    EXPECT_TRUE(parts.members.Find(odd)->candidate());
    if (parts.lifecycle.active()) parts.lifecycle.CheckpointWhole(parts.history.step());
    parts.Train();
    parts.Apply(1);
  }
  EXPECT_FALSE(parts.members.Find(odd)->candidate());
  EXPECT_THAT(parts.members.Find(odd)->quarantine, HasSubstr("the weights of peer peer2"));
  EXPECT_THAT(parts.applied.last_difference(), HasSubstr("it is in quarantine for"));
  EXPECT_TRUE(parts.lifecycle.ending()) << "its place is given up with the next checkpoint";
}

TEST(AppliedChecks, WhoDiffersAgainAndAgainTooSeldomForQuarantineHoldsTheRun) {
  Applied parts(1, 3);
  for (std::uint32_t i = 0; i <= kWeightRepairsMax; ++i) {
    EXPECT_FALSE(parts.history.held());
    parts.Wait(std::chrono::minutes(40));
    for (int step = 0; step < 2; ++step) {  // within a generation it counts once
      for (const std::uint32_t p : {0u, 1u, 2u}) parts.Weights(p, p == 1 ? 8 : 9);
      parts.Apply(1);
    }
    if (parts.lifecycle.active()) parts.lifecycle.CheckpointWhole(parts.history.step());
    parts.Train();
    parts.Apply(1);
  }
  EXPECT_TRUE(parts.history.held());
  EXPECT_THAT(parts.ends.back(), HasSubstr("for the 4th time"));
  parts.applied.Forgive();
  parts.lifecycle.OrderResume();
  for (const std::uint32_t p : {0u, 1u, 2u}) parts.Weights(p, p == 1 ? 8 : 9);
  EXPECT_TRUE(parts.lifecycle.active());
}

}  // namespace
}  // namespace shoal::scheduler
