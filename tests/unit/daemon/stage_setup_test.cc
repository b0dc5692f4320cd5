#include "daemon/stage_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shoal::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two pipelines of three stages; the first byte of a peer's key is 16 * pipeline + stage + 1.
control::v1::Plan TwoByThree() {
  control::v1::Plan plan;
  plan.set_generation(7);
  control::v1::RunConfig* const run = plan.mutable_config();
  run->set_stages(3);
  run->set_pipelines(2);
  run->set_replica_method("average");
  for (std::uint32_t pipeline = 0; pipeline < 2; ++pipeline) {
    for (std::uint32_t stage = 0; stage < 3; ++stage) {
      control::v1::Position* const position = plan.add_positions();
      position->set_pipeline(pipeline);
      position->set_stage(stage);
      std::string key(sizeof(PeerId::key), '\0');
      key[0] = static_cast<char>(16 * pipeline + stage + 1);
      position->set_peer(key);
      position->add_addresses("10.0.0.1:1");
    }
  }
  return plan;
}

std::vector<int> KeysOf(const std::vector<net::LinkTarget>& targets) {
  std::vector<int> keys;
  for (const net::LinkTarget& target : targets) keys.push_back(target.peer.key[0]);
  return keys;
}

// Stage 1 of pipeline 0 is checked, by pipeline 1.
TEST(StageSetupTest, WhoTakesPartInASpotCheckKnowsItsRoleAndBothEndsTheChannel) {
  control::v1::Plan plan = TwoByThree();
  plan.mutable_config()->set_micro_batch_rows(2);
  control::v1::SpotCheck check;
  check.set_step(9);
  check.set_stage(1);
  check.set_place(3);
  check.mutable_micro_batch()->set_global_index(6);
  check.mutable_micro_batch()->add_samples(40);
  check.add_checkers(1);
  const auto of = [&](int index) { return SpotOrderOf(plan, plan.positions(index), check); };
  EXPECT_FALSE(of(1)) << "who is checked";
  EXPECT_FALSE(of(3));
  EXPECT_FALSE(of(5));
  const auto before = of(0), behind = of(2), checker = of(4);
  ASSERT_TRUE(before && behind && checker);
  EXPECT_EQ(before->role, pipeline::SpotRole::kInputWitness);
  EXPECT_EQ(behind->role, pipeline::SpotRole::kOutputWitness);
  EXPECT_EQ(checker->role, pipeline::SpotRole::kChecker);
  EXPECT_EQ(checker->step, 9u);
  EXPECT_EQ(checker->place, 3u);
  EXPECT_EQ(checker->micro_batch.global_index, 6u);
  EXPECT_THAT(checker->micro_batch.samples, ElementsAre(SampleId{40}));
  EXPECT_THAT(KeysOf(before->checkers), ElementsAre(18));
  EXPECT_EQ(before->checkers[0].channel, checker->input.channel);
  EXPECT_EQ(behind->checkers[0].channel, checker->output.channel);
  EXPECT_NE(checker->input.channel, checker->output.channel);
  EXPECT_EQ(checker->input.peer.key[0], 1);
  EXPECT_EQ(checker->output.peer.key[0], 3);
  check.add_checkers(2);
  EXPECT_FALSE(of(0)) << "a pipeline that the plan does not have";
  check.mutable_checkers()->RemoveLast();
  check.set_stage(3);
  EXPECT_FALSE(of(2)) << "a stage that it does not have";
  check.set_stage(1);
  for (const std::uint64_t sample : {41, 42}) check.mutable_micro_batch()->add_samples(sample);
  EXPECT_FALSE(of(4)) << "more rows than a micro-batch has";
}

TEST(StageSetupTest, AnEndOfThePipelineHasOneWitness) {
  control::v1::Plan plan = TwoByThree();
  plan.mutable_config()->set_micro_batch_rows(2);
  control::v1::SpotCheck check;
  check.mutable_micro_batch()->add_samples(40);
  check.add_checkers(1);
  auto checker = SpotOrderOf(plan, plan.positions(3), check);
  ASSERT_TRUE(checker);
  EXPECT_TRUE(checker->input.channel.empty());
  EXPECT_FALSE(checker->output.channel.empty());
  check.set_stage(2);
  checker = SpotOrderOf(plan, plan.positions(5), check);
  ASSERT_TRUE(checker);
  EXPECT_FALSE(checker->input.channel.empty());
  EXPECT_TRUE(checker->output.channel.empty());
}

TEST(StageSetupTest, BothEndsOfALinkNameTheSameChannel) {
  const control::v1::Plan plan = TwoByThree();
  const auto of = [&](int index) { return LinkTargetsOf(plan, plan.positions(index), {0, 2}); };
  const pipeline::LinkTargets first = of(0), middle = of(1), last = of(2), other_last = of(5);
  EXPECT_EQ(first.next.channel, "boundary/0/0");
  EXPECT_EQ(first.next.channel, middle.previous.channel);
  EXPECT_EQ(middle.next.channel, last.previous.channel);
  EXPECT_TRUE(first.previous.channel.empty());
  EXPECT_TRUE(last.next.channel.empty());
  EXPECT_EQ(first.next.peer.key[0], 2);
  EXPECT_EQ(first.next.generation, 7u);
  // Stage 0 of pipeline 0 and the last stage of pipeline 1 exchange what they share.
  EXPECT_EQ(first.shared[3].channel, "shared/0.0-2.1");
  EXPECT_EQ(first.shared[3].channel, other_last.shared[0].channel);
  EXPECT_EQ(first.group[1].channel, of(3).group[0].channel);
  EXPECT_THAT(KeysOf(first.group), ElementsAre(1, 17));
  EXPECT_THAT(KeysOf(first.shared), ElementsAre(0, 0, 3, 19));
}

TEST(StageSetupTest, WhereAStageIsMissingNobodyOfThePipelineHasNeighbours) {
  control::v1::Plan plan = TwoByThree();
  plan.mutable_positions()->DeleteSubrange(5, 1);  // the last stage of pipeline 1
  const pipeline::LinkTargets left = LinkTargetsOf(plan, plan.positions(3), {0, 2});
  EXPECT_EQ(left.next.peer, PeerId{}) << "though there is one";
  EXPECT_THAT(KeysOf(left.group), ElementsAre(1, 17));
  EXPECT_THAT(KeysOf(left.shared), ElementsAre(0, 0, 3, 0));
  const pipeline::LinkTargets whole = LinkTargetsOf(plan, plan.positions(2), {0, 2});
  EXPECT_EQ(whole.previous.peer.key[0], 2);
  EXPECT_THAT(KeysOf(whole.group), ElementsAre(3, 0));
}

TEST(StageSetupTest, StagesThatShareNothingNeedNoLink) {
  const control::v1::Plan plan = TwoByThree();
  EXPECT_THAT(LinkTargetsOf(plan, plan.positions(0), {}).shared, IsEmpty());
}

TEST(StageSetupTest, TheModelSaysWhichStagesShare) {
  const control::v1::Plan plan = TwoByThree();
  const auto sharing = [&](const model::ModelSpec& model, int index) {
    return RunnerConfigOf(plan, plan.positions(index), model, DaemonConfig())->sharing;
  };
  model::ModelSpec model;
  EXPECT_THAT(sharing(model, 0), IsEmpty());
  model.embedding.tokens = {"table", 5, 0};
  model.head.output.weight = "table";
  EXPECT_THAT(sharing(model, 0), ElementsAre(0, 2));
  EXPECT_THAT(sharing(model, 1), IsEmpty());
  model.head.output.weight = "another";
  model.relative.emplace().table = {"distances", 6, 0};
  EXPECT_THAT(sharing(model, 1), ElementsAre(0, 1, 2));
  model.adapted = true;
  EXPECT_THAT(sharing(model, 1), IsEmpty()) << "nobody learns of it";
}

TEST(StageSetupTest, OneStageHasNoBoundary) {
  control::v1::Plan plan = TwoByThree();
  plan.mutable_config()->set_stages(1);
  const pipeline::LinkTargets targets = LinkTargetsOf(plan, plan.positions(0), {});
  EXPECT_TRUE(targets.next.channel.empty());
  EXPECT_TRUE(targets.previous.channel.empty());
  EXPECT_THAT(targets.shared, IsEmpty());
}

TEST(StageSetupTest, ShardsAreForSeveralPipelinesOnly) {
  control::v1::Plan plan = TwoByThree();
  DaemonConfig daemon;
  daemon.directory = "here";
  const auto held = [&](const char* method) {
    plan.mutable_config()->set_replica_method(method);
    return StageOptionsOf(plan, plan.positions(0), daemon)->held;
  };
  EXPECT_EQ(held("average"), model::ZeroMode::kNone);
  EXPECT_EQ(held("qsdp"), model::ZeroMode::kZero1);
  EXPECT_EQ(held("qsdp:shard_parameters=true"), model::ZeroMode::kZero3);
  EXPECT_EQ(StageOptionsOf(plan, plan.positions(0), daemon)->state_folder, "here/stage-state");
  plan.mutable_config()->set_pipelines(1);
  EXPECT_EQ(held("qsdp"), model::ZeroMode::kNone);
}

TEST(StageSetupTest, WhatARunDoesNotKnowIsAnErrorByName) {
  control::v1::Plan plan = TwoByThree();
  plan.mutable_config()->set_replica_method("magic");
  EXPECT_THAT(StageOptionsOf(plan, plan.positions(0), DaemonConfig()).status().message(),
              HasSubstr("magic"));
  plan.mutable_config()->set_schedule("backwards");
  EXPECT_THAT(RunnerConfigOf(plan, plan.positions(0), {}, DaemonConfig()).status().message(),
              HasSubstr("backwards"));
}

TEST(StageSetupTest, TheEndsOfAPipelineNeedData) {
  pipeline::RunnerConfig config;
  config.stages = 3;
  for (const std::uint32_t stage : {0u, 1u, 2u}) {
    config.stage = stage;
    EXPECT_EQ(CheckData(config, nullptr, 100).ok(), stage == 1) << stage;
  }
}

}  // namespace
}  // namespace shoal::daemon
