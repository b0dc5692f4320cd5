#include "pipeline/core/schedule.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shoal::pipeline {
namespace {

std::string Name(const Op& op) {
  const char* const kind = op.kind == OpKind::kForward         ? "F"
                           : op.kind == OpKind::kBackwardInput ? "B"
                                                               : "W";
  return kind + std::to_string(op.micro_batch);
}

std::optional<Op> NextOp1f1b(const StageProgress& progress) {
  return NextOp(ScheduleKind::k1f1b, progress);
}

TEST(NextOpTest, LastStageAlternates) {
  StageProgress progress{.micro_batches = 3, .inputs_ready = 3, .in_flight = 1};
  std::string order;
  for (;;) {
    progress.gradients_ready = progress.forwards;  // the loss is its own
    const auto op = NextOp1f1b(progress);
    if (!op) break;
    order += Name(*op) + " ";
    Count(op->kind, &progress);
  }
  EXPECT_EQ(order, "F0 B0 W0 F1 B1 W1 F2 B2 W2 ");
}

TEST(NextOpTest, FillsUpToTheBoundThenWaitsForGradients) {
  StageProgress progress{.micro_batches = 8, .inputs_ready = 8, .in_flight = 3};
  std::string order;
  while (const auto op = NextOp1f1b(progress)) {
    order += Name(*op) + " ";
    Count(op->kind, &progress);
  }
  EXPECT_EQ(order, "F0 F1 F2 ");
  progress.gradients_ready = 1;
  order.clear();
  while (const auto op = NextOp1f1b(progress)) {
    order += Name(*op) + " ";
    Count(op->kind, &progress);
  }
  EXPECT_EQ(order, "B0 W0 F3 ");
}

TEST(NextOpTest, BackwardBeforeForwardAndNothingWithoutInput) {
  StageProgress progress{
      .micro_batches = 4, .forwards = 2, .inputs_ready = 3, .gradients_ready = 1, .in_flight = 4};
  EXPECT_EQ(NextOp1f1b(progress), (Op{OpKind::kBackwardInput, 0}));
  progress.gradients_ready = 0;
  EXPECT_EQ(NextOp1f1b(progress), (Op{OpKind::kForward, 2}));
  progress.inputs_ready = 2;
  EXPECT_EQ(NextOp1f1b(progress), std::nullopt);
  progress.gradients_ready = 4;  // more than was sent: never ahead of the forwards
  progress.backwards = progress.weight_backwards = 2;
  EXPECT_EQ(NextOp1f1b(progress), std::nullopt);
}

TEST(NextOpTest, ZeroBubbleDoesWeightsOnlyWhenNothingElseCanRun) {
  StageProgress progress{.micro_batches = 4,
                         .inputs_ready = 2,
                         .gradients_ready = 1,
                         .in_flight = 4,
                         .pending_weights_max = 2};
  std::string order;
  const auto run = [&] {
    order.clear();
    while (const auto op = NextOp(ScheduleKind::kZeroBubble, progress)) {
      order += Name(*op) + " ";
      Count(op->kind, &progress);
    }
    return order;
  };
  EXPECT_EQ(run(), "F0 B0 F1 W0 ");
  EXPECT_FALSE(AllDone(progress));
  progress.inputs_ready = 4;
  progress.gradients_ready = 4;
  EXPECT_EQ(run(), "B1 F2 B2 F3 W1 B3 W2 W3 ");  // two pending at most: W1 goes before B3
  EXPECT_TRUE(AllDone(progress));
}

TEST(NextOpTest, ZeroBubbleMakesRoomForABackwardBeforeAForward) {
  StageProgress progress{.micro_batches = 8,
                         .forwards = 3,
                         .backwards = 2,
                         .weight_backwards = 0,
                         .inputs_ready = 4,
                         .gradients_ready = 3,
                         .in_flight = 8,
                         .pending_weights_max = 2};
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), (Op{OpKind::kBackwardWeights, 0}));
  progress.gradients_ready = 2;  // no backward to make room for
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), (Op{OpKind::kForward, 3}));
  progress.inputs_ready = 3;
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), (Op{OpKind::kBackwardWeights, 0}));
  progress.weight_backwards = 2;
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), std::nullopt);
}

TEST(NextOpTest, ABoundOfZeroIsOne) {
  StageProgress progress{
      .micro_batches = 2, .inputs_ready = 2, .in_flight = 0, .pending_weights_max = 0};
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), (Op{OpKind::kForward, 0}));
  progress.forwards = 1;
  EXPECT_FALSE(HasRoom(progress));
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), std::nullopt);
  progress.gradients_ready = 1;
  EXPECT_EQ(NextOp(ScheduleKind::kZeroBubble, progress), (Op{OpKind::kBackwardInput, 0}));
}

// Every operation and message of a pipeline takes random time, so that stages meet every order of
// events. Nothing here knows a schedule: what can happen does, one thing after the other.
class RandomPipeline {
 public:
  RandomPipeline(ScheduleKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                 std::uint32_t seed)
      : kind_(kind), random_(seed), stages_(stages) {
    for (Stage& stage : stages_) {
      stage.progress.micro_batches = micro_batches;
      stage.progress.in_flight = 1 + random_() % 10;
      stage.progress.pending_weights_max = 1 + random_() % 10;
    }
    stages_.front().progress.inputs_ready = micro_batches;
  }

  // Runs to the end; false if the pipeline stands still before.
  bool Run() {
    for (;;) {
      for (std::size_t s = 0; s < stages_.size(); ++s) Start(s);
      std::vector<std::pair<int, std::size_t>> possible;  // what can end now, and where
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        if (stages_[s].running) possible.push_back({0, s});
        if (stages_[s].activations > 0) possible.push_back({1, s});
        if (stages_[s].gradients > 0) possible.push_back({2, s});
      }
      if (possible.empty()) break;
      const auto [what, s] = possible[random_() % possible.size()];
      if (what == 0) Finish(s);
      if (what == 1) {
        --stages_[s].activations;
        ++stages_[s + 1].progress.inputs_ready;
      }
      if (what == 2) {
        --stages_[s].gradients;
        ++stages_[s - 1].progress.gradients_ready;
      }
    }
    for (const Stage& stage : stages_) {
      if (!AllDone(stage.progress) || stage.progress.forwards != stage.progress.micro_batches) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Stage {
    StageProgress progress;
    std::optional<Op> running;
    std::uint32_t activations = 0, gradients = 0;  // under way from here
  };

  void Start(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.running) return;
    StageProgress& progress = stage.progress;
    stage.running = NextOp(kind_, progress);
    if (!stage.running) return;
    const std::uint32_t mb = stage.running->micro_batch;
    switch (stage.running->kind) {
      case OpKind::kForward:
        EXPECT_EQ(mb, progress.forwards);
        EXPECT_LT(mb, progress.inputs_ready);
        break;
      case OpKind::kBackwardInput:
        EXPECT_EQ(mb, progress.backwards);
        EXPECT_LT(mb, progress.gradients_ready);
        EXPECT_LT(mb, progress.forwards);
        break;
      case OpKind::kBackwardWeights:
        EXPECT_EQ(mb, progress.weight_backwards);
        EXPECT_LT(mb, progress.backwards);
        break;
    }
    Count(stage.running->kind, &progress);
    const std::uint32_t pending = progress.backwards - progress.weight_backwards;
    EXPECT_LE(progress.forwards - progress.backwards, progress.in_flight);
    EXPECT_LE(pending, kind_ == ScheduleKind::k1f1b ? 1 : progress.pending_weights_max);
  }

  void Finish(std::size_t s) {
    Stage& stage = stages_[s];
    const OpKind kind = stage.running->kind;
    stage.running.reset();
    if (kind == OpKind::kForward && s + 1 == stages_.size()) ++stage.progress.gradients_ready;
    if (kind == OpKind::kForward && s + 1 < stages_.size()) ++stage.activations;
    if (kind == OpKind::kBackwardInput && s > 0) ++stage.gradients;
  }

  const ScheduleKind kind_;
  std::mt19937 random_;
  std::vector<Stage> stages_;
};

TEST(NextOpTest, NeverDeadlocksAndKeepsItsBoundsUnderRandomDelays) {
  for (const ScheduleKind kind : {ScheduleKind::k1f1b, ScheduleKind::kZeroBubble}) {
    for (std::uint32_t stages = 1; stages <= 8; ++stages) {
      for (std::uint32_t micro_batches = 1; micro_batches <= 64; ++micro_batches) {
        const std::uint32_t seed = 1000 * stages + micro_batches;
        SCOPED_TRACE(std::string(ScheduleName(kind)) + ", stages " + std::to_string(stages) +
                     ", micro-batches " + std::to_string(micro_batches) + ", seed " +
                     std::to_string(seed));
        ASSERT_TRUE(RandomPipeline(kind, stages, micro_batches, seed).Run());
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

}  // namespace
}  // namespace shoal::pipeline
