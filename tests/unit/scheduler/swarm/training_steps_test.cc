#include "scheduler/swarm/training_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Steps : SwarmParts {
  Steps(std::uint32_t stages, std::uint32_t pipelines) : SwarmParts(stages, pipelines) {
    JoinAll(stages * pipelines);
    Train();
    reaction.Take();
    steps.Begin();
  }
  control::v1::StepReady Report(std::uint32_t pipeline) const {
    control::v1::StepReady ready;
    ready.set_step(history.step());
    ready.set_micro_batches(
        MicroBatchesOf(Dealing{{}, {plan.Counting()}}, config.micro_batches, pipeline));
    ready.set_labels(10);
    ready.set_loss_sum(20);
    return ready;
  }
  void Ready(std::uint32_t pipeline, std::uint32_t stage) {
    steps.OnReady(At(pipeline, stage), Report(pipeline));
  }
  void Synced(std::uint32_t pipeline, std::uint32_t stage, double squared_norm = 100) {
    control::v1::SyncDone done;
    done.set_step(history.step());
    done.set_squared_norm(squared_norm);
    steps.OnSynced(At(pipeline, stage), done);
  }
  template <typename Each>
  void All(Each each) {
    for (std::uint32_t p = 0; p < config.pipelines; ++p) {
      for (std::uint32_t s = 0; s < config.stages; ++s) each(p, s);
    }
  }
  void Step() {
    All([&](auto p, auto s) { Ready(p, s); });
    steps.ReduceIfReady();
    All([&](auto p, auto s) { Synced(p, s); });
  }
  // A step in which one member's gradient is not finite.
  void LostStep(std::uint32_t pipeline, std::uint32_t stage) {
    All([&](auto p, auto s) { Ready(p, s); });
    steps.ReduceIfReady();
    All([&](auto p, auto s) { Synced(p, s, p == pipeline && s == stage ? kNan : 100); });
  }
  std::vector<control::v1::Apply> Applies() {
    std::vector<control::v1::Apply> applies;
    for (const SendTo& sent : Take<SendTo>()) {
      if (sent.message.has_apply()) applies.push_back(sent.message.apply());
    }
    return applies;
  }
};

TEST(TrainingSteps, TellsOfEachAppliedStep) {
  Steps parts(2, 2);
  parts.reaction.Take();
  parts.Step();
  parts.LostStep(1, 0);
  std::vector<StepApplied> told;
  std::size_t losses = 0;  // actions before the first event with a loss
  for (const Action& action : parts.reaction.Take()) {
    if (const auto* step = std::get_if<StepApplied>(&action)) told.push_back(*step);
    if (std::holds_alternative<Persist>(action) && told.empty()) ++losses;
  }
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(losses, 0u) << "a loss that the history has, too, is told first";
  EXPECT_EQ(told[0].step, 1u);
  EXPECT_EQ(told[0].loss, 2);
  EXPECT_EQ(told[0].pipelines, 2u);
  EXPECT_EQ(told[0].samples,
            std::uint64_t{parts.config.micro_batches} * parts.config.micro_batch_rows);
  EXPECT_EQ(told[0].learning_rate, LearningRate(parts.config, 0));
  EXPECT_GT(told[0].gradient_norm, 0);
  EXPECT_FALSE(told[0].skipped);
  EXPECT_EQ(told[1].step, 2u);
  EXPECT_TRUE(told[1].skipped);
}

TEST(TrainingSteps, PlansAreSentAhead) {
  Steps parts(2, 1);
  const auto sent = parts.Take<SendTo>();
  ASSERT_EQ(sent.size(), 2 * kStepPlansAhead);
  EXPECT_EQ(sent.back().message.step_plan().step(), kStepPlansAhead - 1);
  parts.Step();
  const auto later = parts.Take<SendTo>();
  EXPECT_EQ(later.back().message.step_plan().step(), kStepPlansAhead);
}

TEST(TrainingSteps, AStepIsReducedAndAppliedOnceWhenAllHaveReported) {
  Steps parts(2, 2);
  parts.reaction.Take();
  parts.Ready(0, 0);
  parts.Ready(0, 1);
  parts.Ready(1, 0);
  parts.Synced(0, 0);  // too early
  parts.steps.ReduceIfReady();
  EXPECT_TRUE(parts.reaction.Take().empty());
  parts.Ready(1, 1);
  parts.steps.ReduceIfReady();
  parts.steps.ReduceIfReady();
  const auto reduces = parts.Take<SendTo>();
  ASSERT_EQ(reduces.size(), 4u);
  EXPECT_EQ(reduces[0].message.reduce().labels(), 20u);
  parts.All([&](auto p, auto s) { parts.Synced(p, s); });
  EXPECT_EQ(parts.history.step(), 1u);
  const auto applies = parts.Take<SendTo>();
  ASSERT_EQ(applies.size(), 8u) << "and the next plan";
  EXPECT_EQ(applies[0].message.apply().loss(), 2);
  EXPECT_DOUBLE_EQ(applies[0].message.apply().global_norm(), std::sqrt(200.0) / 20);
  EXPECT_FALSE(applies[0].message.apply().checkpoint());
  parts.Ready(0, 0);
  parts.steps.ReduceIfReady();
  EXPECT_TRUE(parts.reaction.Take().empty()) << "of the next step not all are ready";
}

TEST(TrainingSteps, AllMembersOfAStageSaveADueCheckpoint) {
  Steps parts(1, 2);
  parts.config.checkpoint_every = 2;
  parts.Step();
  EXPECT_EQ(parts.uploads.asked(), 0u);
  parts.reaction.Take();
  parts.Step();
  EXPECT_EQ(parts.uploads.asked(), 2u);
  int applies = 0;
  for (const SendTo& sent : parts.Take<SendTo>()) {
    if (!sent.message.has_apply()) continue;
    EXPECT_TRUE(sent.message.apply().checkpoint());
    EXPECT_TRUE(sent.message.apply().check_weights());
    ++applies;
  }
  EXPECT_EQ(applies, 2);
}

TEST(TrainingSteps, NoStepBeginsWhileTheEndingsCheckpointIsUnderWay) {
  Steps parts(1, 1);
  parts.lifecycle.EndSoon("anna hands over");
  parts.Step();
  EXPECT_EQ(parts.uploads.asked(), 1u) << "the step ends with a checkpoint";
  parts.Ready(0, 0);
  parts.reaction.Take();
  parts.steps.ReduceIfReady();
  EXPECT_TRUE(parts.reaction.Take().empty());
  parts.lifecycle.PostponeEnding();  // it failed
  parts.steps.ReduceIfReady();
  const auto reduces = parts.Take<SendTo>();
  ASSERT_EQ(reduces.size(), 1u);
  EXPECT_TRUE(reduces[0].message.reduce().checkpoint());
}

TEST(TrainingSteps, WhatCannotBeAppliedEndsTheGeneration) {
  {
    Steps parts(2, 1);
    auto ready = parts.Report(0);
    ready.set_micro_batches(1);
    parts.steps.OnReady(parts.At(0, 0), ready);
    EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("finished 1 of 6 micro-batches"));
    EXPECT_FALSE(parts.history.held());
  }
  {
    Steps parts(2, 1);
    auto ready = parts.Report(0);
    ready.set_loss_sum(kNan);
    parts.steps.OnReady(parts.At(0, 0), ready);
    EXPECT_TRUE(parts.lifecycle.active()) << "only the last stage has a loss";
    parts.steps.OnReady(parts.At(0, 1), ready);
    EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("the loss is not finite at step 0"));
    EXPECT_TRUE(parts.history.held());
  }
  {
    Steps parts(1, 1);
    auto ready = parts.Report(0);
    ready.set_labels(0);
    ready.set_loss_sum(0);
    parts.steps.OnReady(parts.At(0, 0), ready);
    parts.steps.ReduceIfReady();
    parts.Synced(0, 0);
    EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("has no labels"));
  }
  {
    Steps parts(1, 1);
    auto ready = parts.Report(0);
    ready.set_loss_sum(-5);
    parts.steps.OnReady(parts.At(0, 0), ready);
    EXPECT_FALSE(parts.lifecycle.active());
    EXPECT_EQ(parts.steps.values().refused(), 1u);
  }
}

// ---- held-out loss ----

struct EvaluatedSteps : Steps {
  EvaluatedSteps() : Steps(1, 2) {
    config.validation_rows = 5;
    config.evaluate_every = 2;
  }
  // A step whose members evaluated with these sums, of ten labels each.
  void Step(double first, double second) {
    for (const std::uint32_t p : {0u, 1u}) {
      auto ready = Report(p);
      ready.set_evaluation_labels(10);
      ready.set_evaluation_loss_sum(p == 0 ? first : second);
      steps.OnReady(At(p, 0), ready);
    }
    steps.ReduceIfReady();
    All([&](auto p, auto s) { Synced(p, s); });
  }
  std::vector<std::pair<std::uint64_t, double>> HeldOut() const {
    std::vector<std::pair<std::uint64_t, double>> all;
    for (const HeldOutMeasured& measured : history.held_out()) {
      all.emplace_back(measured.step, measured.loss);
    }
    return all;
  }
};

TEST(TrainingSteps, PlansOfSomeStepsHaveValidationRowsForAllPipelines) {
  EvaluatedSteps parts;
  parts.reaction.Take();
  parts.Steps::Step();
  parts.Steps::Step();
  std::map<std::uint64_t, std::vector<std::uint64_t>> rows;
  for (const SendTo& sent : parts.Take<SendTo>()) {
    if (!sent.message.has_step_plan()) continue;
    auto& of_step = rows[sent.message.step_plan().step()];
    of_step.clear();
    for (const auto& pipeline : sent.message.step_plan().pipelines()) {
      EXPECT_GT(pipeline.micro_batches_size(), 0);
      for (const auto& micro_batch : pipeline.evaluation()) {
        EXPECT_LE(micro_batch.samples_size(), static_cast<int>(parts.config.micro_batch_rows));
        of_step.insert(of_step.end(), micro_batch.samples().begin(), micro_batch.samples().end());
      }
    }
    std::sort(of_step.begin(), of_step.end());
  }
  const std::uint64_t first = parts.config.train_rows;
  EXPECT_EQ(rows.at(3), (std::vector<std::uint64_t>{}));
  EXPECT_EQ(rows.at(4),
            (std::vector<std::uint64_t>{first, first + 1, first + 2, first + 3, first + 4}));
}

TEST(TrainingSteps, EvaluationsOfLongRowsHaveFewOfThemInAFrame) {
  EvaluatedSteps parts;
  parts.config.micro_batch_rows = 2;
  for (const auto& [tokens, rows] :
       {std::pair(kEvaluationTokensMax / 2, 2u), std::pair(kEvaluationTokensMax / 2 + 1, 1u),
        std::pair(4 * kEvaluationTokensMax, 1u)}) {
    parts.config.row_tokens = tokens;
    const auto sampler =
        dataset::Sampler::Make({parts.config.seed, parts.config.train_rows,
                                parts.config.micro_batches, parts.config.micro_batch_rows});
    ASSERT_TRUE(sampler.ok());
    const auto plan = MakeStepPlan(parts.config, *sampler, {1, 0, 1, {{}, {{0}}}}, {});
    int found = 0, most = 0;
    for (const auto& pipeline : plan.pipelines()) {
      for (const auto& micro_batch : pipeline.evaluation()) {
        found += micro_batch.samples_size();
        most = std::max(most, micro_batch.samples_size());
      }
    }
    EXPECT_EQ(found, 5) << tokens;
    EXPECT_EQ(most, static_cast<int>(rows)) << tokens;
  }
}

TEST(TrainingSteps, HeldOutLossIsKeptToldAndMeasuredAgainBehindARestart) {
  EvaluatedSteps parts;
  parts.reaction.Take();
  parts.Step(20, 40);
  bool told = false;
  for (const SendTo& sent : parts.Take<SendTo>()) {
    if (!sent.message.has_apply()) continue;
    told = true;
    ASSERT_TRUE(sent.message.apply().has_held_out());
    EXPECT_EQ(sent.message.apply().held_out().step(), 0u);
    EXPECT_DOUBLE_EQ(sent.message.apply().held_out().loss(), 3);
  }
  EXPECT_TRUE(told);
  parts.Steps::Step();
  for (const SendTo& sent : parts.Take<SendTo>()) {
    EXPECT_FALSE(sent.message.has_apply() && sent.message.apply().has_held_out());
  }
  parts.Step(20, 20);
  const std::vector<std::pair<std::uint64_t, double>> wanted{{0, 3.0}, {2, 2.0}};
  EXPECT_EQ(parts.HeldOut(), wanted);
  parts.journal.Record(PlanMade{9, 1});  // back to a checkpoint
  EXPECT_EQ(parts.HeldOut().size(), 1u);
}

TEST(TrainingSteps, AHeldOutLossThatIsNotFiniteIsLeftOut) {
  EvaluatedSteps parts;
  parts.Step(std::numeric_limits<double>::infinity(), 20);
  EXPECT_TRUE(parts.HeldOut().empty());
  EXPECT_EQ(parts.history.step(), 1u) << "the run goes on";
}

TEST(TrainingSteps, AHeldOutLossThatNoModelHasIsLeftOut) {
  EvaluatedSteps parts;
  parts.Step(1e300, 20);
  parts.Step(-50, 20);
  EXPECT_TRUE(parts.HeldOut().empty());
  parts.Step(20, 20);
  EXPECT_EQ(parts.HeldOut().size(), 1u);
}

TEST(TrainingSteps, AStepWithALostGradientIsSkippedByAllAndCounts) {
  Steps parts(2, 2);
  parts.config.checkpoint_every = 1;
  parts.LostStep(1, 0);
  const auto applies = parts.Applies();
  ASSERT_EQ(applies.size(), 4u) << "all were waited for";
  for (const auto& apply : applies) {
    EXPECT_TRUE(apply.skip());
    EXPECT_EQ(apply.global_norm(), 0);
    EXPECT_EQ(apply.loss(), 2);
    EXPECT_TRUE(apply.checkpoint() && apply.check_weights()) << "as usual";
  }
  EXPECT_EQ(parts.history.step(), 1u);
  EXPECT_EQ(parts.history.skipped(), std::vector<std::uint64_t>{0});
  EXPECT_EQ(parts.steps.values().refused(), 0u);
  const RunView view = parts.view.At(parts.reaction.now());
  EXPECT_EQ(view.skipped_steps, 1u);
  EXPECT_THAT(view.last_skipped, HasSubstr("not finite at step 0"));
  EXPECT_THAT(view.last_skipped, HasSubstr(parts.At(1, 0).LabelWithPosition()));
  EXPECT_THAT(view.last_skipped, HasSubstr("learning_rate"));
  parts.Step();
  const auto next = parts.Applies();
  ASSERT_EQ(next.size(), 4u);
  EXPECT_FALSE(next[0].skip());
}

// By the norm that methods clip by, one that no peer of this version sends.
TEST(TrainingSteps, ANormBeforeTheExchangeThatIsNotFiniteSkipsToo) {
  Steps parts(1, 2);
  parts.Ready(0, 0);
  auto ready = parts.Report(1);
  ready.set_squared_norm(kNan);
  parts.steps.OnReady(parts.At(1, 0), ready);
  parts.reaction.Take();
  parts.steps.ReduceIfReady();
  const auto reduces = parts.Take<SendTo>();
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(reduces[0].message.reduce().local_norms(1), 0);
  parts.All([&](auto p, auto s) { parts.Synced(p, s); });
  const auto applies = parts.Applies();
  ASSERT_EQ(applies.size(), 2u);
  EXPECT_TRUE(applies[0].skip());
}

TEST(TrainingSteps, ThreeLostStepsInARowHoldTheRunAndAGoodOneBetweenDoesNot) {
  Steps parts(1, 1);
  for (int i = 0; i < 3; ++i) {
    parts.LostStep(0, 0);
    parts.LostStep(0, 0);
    parts.Step();
  }
  EXPECT_TRUE(parts.lifecycle.active());
  EXPECT_EQ(parts.history.skipped(), (std::vector<std::uint64_t>{0, 1, 3, 4, 6, 7}));
  parts.LostStep(0, 0);
  parts.LostStep(0, 0);
  EXPECT_TRUE(parts.lifecycle.active());
  parts.reaction.Take();
  const std::string who = parts.At(0, 0).LabelWithPosition();
  parts.LostStep(0, 0);
  EXPECT_TRUE(parts.Applies().empty());
  EXPECT_TRUE(parts.history.held());
  EXPECT_EQ(parts.history.step(), 11u) << "it is not applied";
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("the gradient is not finite at step 11"));
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr(who));
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("2 steps before"));
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("backward codec bits"));
}

// Several pipelines have the same weights: what only one of them loses is its own fault.
TEST(TrainingSteps, OneMembersLostGradientsAreItsFaultAndDoNotHoldTheRun) {
  Steps parts(2, 2);
  const std::string who = parts.At(1, 0).LabelWithPosition();
  parts.LostStep(1, 0);
  parts.LostStep(1, 0);
  parts.LostStep(1, 0);
  EXPECT_FALSE(parts.history.held());
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_EQ(parts.history.step(), 2u) << "the third is not applied";
  EXPECT_EQ(parts.steps.values().refused(), 1u);
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr(who));
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("not finite at step 2"));
}

TEST(TrainingSteps, LostGradientsOfSeveralMembersHoldTheRun) {
  Steps parts(2, 2);
  parts.LostStep(1, 0);
  parts.LostStep(0, 0);
  parts.LostStep(1, 0);
  EXPECT_TRUE(parts.history.held());
}

TEST(TrainingSteps, WithoutSamplesTheRunFails) {
  SwarmParts parts(1, 1);
  parts.config.train_rows = 0;
  const TrainingSteps steps(parts.config, parts.plan, &parts.journal, &parts.lifecycle,
                            &parts.faults, &parts.uploads, &parts.spots, &parts.reaction);
  EXPECT_EQ(parts.lifecycle.state(), RunState::kFailed);
}

}  // namespace
}  // namespace shoal::scheduler
