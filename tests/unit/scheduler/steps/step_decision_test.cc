#include "scheduler/steps/step_decision.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::scheduler {
namespace {

struct Steps {
  std::vector<std::uint64_t> syncs, checkpoints;  // steps applied
};

// A run in which every checkpoint is whole at once; a pause is ordered before `pause`, and goes on.
Steps Walk(std::uint64_t steps, std::uint64_t every, std::uint32_t local_steps,
           std::uint64_t pause = 0) {
  Steps run;
  StepFacts facts;
  facts.steps = steps;
  facts.checkpoint_every = every;
  facts.local_steps = local_steps;
  for (facts.applied = 1; facts.applied <= steps; ++facts.applied) {
    facts.pausing = facts.applied == pause;
    const StepDecision decision = DecideStep(facts);
    if (decision.sync) run.syncs.push_back(facts.applied);
    if (!decision.checkpoint) continue;
    run.checkpoints.push_back(facts.applied);
    facts.checkpoint_asked = facts.applied;
  }
  return run;
}

TEST(StepDecisionTest, WithoutLocalStepsAllStepsSyncAndCheckpointsComeWhenDue) {
  const Steps run = Walk(25, 10, 0, 7);
  EXPECT_EQ(run.syncs.size(), 25u);
  EXPECT_EQ(run.checkpoints, (std::vector<std::uint64_t>{7, 17, 25}));
}

TEST(StepDecisionTest, CheckpointsWaitForTheNextSync) {
  const Steps run = Walk(50, 10, 8);
  EXPECT_EQ(run.syncs, (std::vector<std::uint64_t>{8, 16, 24, 32, 40, 48, 50}));
  EXPECT_EQ(run.checkpoints, (std::vector<std::uint64_t>{16, 32, 48, 50}));
}

TEST(StepDecisionTest, ThereAreNoMoreSyncsForFrequentCheckpoints) {
  const Steps run = Walk(20, 1, 8);
  EXPECT_EQ(run.syncs, (std::vector<std::uint64_t>{8, 16, 20}));
  EXPECT_EQ(run.checkpoints, run.syncs);
}

TEST(StepDecisionTest, APauseSyncsAtOnceAndTheRhythmStays) {
  const Steps run = Walk(24, 100, 8, 11);
  EXPECT_EQ(run.syncs, (std::vector<std::uint64_t>{8, 11, 16, 24}));
  EXPECT_EQ(run.checkpoints, (std::vector<std::uint64_t>{11, 24}));
}

TEST(StepDecisionTest, WhileCheckpointsArePendingNoneIsAskedForButTheLast) {
  StepFacts facts{.applied = 16, .steps = 32, .checkpoint_every = 4, .local_steps = 8};
  EXPECT_TRUE(DecideStep(facts).checkpoint);
  facts.checkpoints_pending = true;
  EXPECT_TRUE(DecideStep(facts).sync);
  EXPECT_FALSE(DecideStep(facts).checkpoint);
  facts.applied = 32;
  EXPECT_TRUE(DecideStep(facts).checkpoint);
}

TEST(StepDecisionTest, WeightsAreComparedWhereReplicasShouldBeEqual) {
  StepFacts facts{
      .applied = 4, .steps = 32, .pipelines = 2, .checkpoint_every = 100, .weight_check_every = 4};
  EXPECT_TRUE(DecideStep(facts).check_weights);
  facts.applied = 5;
  EXPECT_FALSE(DecideStep(facts).check_weights);
  facts.pausing = true;
  EXPECT_TRUE(DecideStep(facts).check_weights) << "before each checkpoint";
  facts.pipelines = 1;
  EXPECT_FALSE(DecideStep(facts).check_weights) << "with nobody";
  facts = {.applied = 4,
           .steps = 32,
           .pipelines = 2,
           .checkpoint_every = 100,
           .weight_check_every = 4,
           .local_steps = 5};
  EXPECT_FALSE(DecideStep(facts).check_weights) << "replicas differ between exchanges";
  facts.applied = 5;
  EXPECT_TRUE(DecideStep(facts).check_weights) << "after each exchange";
}

}  // namespace
}  // namespace shoal::scheduler
