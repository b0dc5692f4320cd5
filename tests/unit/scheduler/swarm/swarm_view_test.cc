#include "scheduler/swarm/swarm_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SwarmView, AWaitingRunSaysForWhat) {
  SwarmParts parts(2, 2);
  parts.config.stage_bytes = {100, 100};
  EXPECT_EQ(parts.view.Reason(), "waiting for 4 more peers (0 of 4 are here)");
  for (const std::uint32_t number : {1u, 2u, 3u}) parts.Join(number, 200);
  EXPECT_EQ(parts.view.Reason(), "waiting for 1 more peer (3 of 4 are here)");
  parts.Join(4, 50);
  EXPECT_FALSE(parts.plan.Propose(parts.config.pipelines));
  EXPECT_THAT(parts.view.Reason(), HasSubstr("too little memory"));
  parts.artefacts.OnLost({parts.initial.at("head").hash()});
  EXPECT_THAT(parts.view.Reason(), HasSubstr("1 artefact is damaged or gone"));
}

TEST(SwarmView, APausedRunNamesTheMissing) {
  SwarmParts parts(2, 1);
  parts.JoinAll(2);
  parts.Prepare();
  EXPECT_EQ(parts.view.Reason(), "0 of 2 peers have their layers and links");
  parts.members.Close(2);
  parts.lifecycle.Lost(SimPeerId(1), "lost peer2");
  EXPECT_THAT(parts.view.Reason(), HasSubstr("lost peer2; waiting for 1 more peer (1 of 2"));
  EXPECT_THAT(parts.view.Reason(), HasSubstr("missing: peer peer2"));
  parts.lifecycle.Hold("paused");
  EXPECT_EQ(parts.view.Reason(), "paused");
}

TEST(SwarmView, AnEndingOutranksWhoCannotSaveAndThatADoubt) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  EXPECT_EQ(parts.view.Reason(), "");
  parts.At(0, 0).save_error = "no space";
  EXPECT_THAT(parts.view.Reason(), HasSubstr("cannot save checkpoints: no space"));
  parts.lifecycle.EndSoon("anna hands over");
  EXPECT_THAT(parts.view.Reason(),
              HasSubstr("anna hands over, as soon as the next checkpoint is whole; peer peer1"));
  parts.lifecycle.OrderPause();
  EXPECT_THAT(parts.view.Reason(), HasSubstr("pausing as soon as"));
}

TEST(SwarmView, WhoCannotSaveDoesNotHideThatFewerPipelinesTrain) {
  SwarmParts parts(1, 2);
  parts.JoinAll(2);
  parts.Train();
  parts.plan.Lose({1, 0});
  parts.steps.GoOnWithout({{1, 0}}, "lost peer2");
  EXPECT_THAT(parts.view.Reason(), StartsWith("1 of 2 pipelines train"));
  parts.At(0, 0).save_error = "no space";
  EXPECT_THAT(parts.view.Reason(), HasSubstr("cannot save checkpoints: no space"));
  EXPECT_THAT(parts.view.Reason(), HasSubstr("; 1 of 2 pipelines train"));
}

TEST(SwarmView, TheMessageAndTheViewSayTheSame) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.Apply(2);
  parts.Wait(std::chrono::seconds(3));
  const control::v1::RunStatus message = parts.view.Message();
  const RunView view = parts.view.At(parts.reaction.now());
  EXPECT_EQ(message.state(), RunStateName(view.state));
  EXPECT_EQ(message.step(), view.step);
  EXPECT_EQ(message.loss(), view.loss);
  EXPECT_EQ(message.peers_needed(), 1u);
  ASSERT_EQ(view.members.size(), 1u);
  EXPECT_EQ(view.members[0].last_heard_s, 3);
  EXPECT_EQ(view.members[0].stage, 0);
}

}  // namespace
}  // namespace shoal::scheduler
