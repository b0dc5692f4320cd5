#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <string>

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

// Slow reference: a pipeline in virtual time, event by event. Links are busy for a transfer and
// carry one micro-batch at a time per direction. Returns the time of `micro_batches`.
double StepTime(const std::vector<StageTimes>& stages, const std::vector<std::uint32_t>& bounds,
                std::uint32_t micro_batches) {
  const std::size_t count = stages.size();
  struct State {
    StageProgress progress;
    bool busy = false;
    double link_forward = 0, link_backward = 0;  // busy until
  };
  std::vector<State> state(count);
  using Event = std::pair<double, std::function<void()>>;
  const auto later = [](const Event& a, const Event& b) { return a.first > b.first; };
  std::priority_queue<Event, std::vector<Event>, decltype(later)> events(later);
  double now = 0;
  std::function<void(std::size_t)> pump = [&](std::size_t s) {
    State& stage = state[s];
    if (stage.busy) return;
    const auto op = NextOp1f1b(stage.progress);
    if (!op) return;
    Count(op->kind, &stage.progress);
    stage.busy = true;
    const double cost = op->kind == OpKind::kForward         ? stages[s].forward_ms
                        : op->kind == OpKind::kBackwardInput ? stages[s].backward_ms
                                                             : 0;
    events.push({now + cost, [&, s, kind = op->kind] {
                   State& self = state[s];
                   self.busy = false;
                   if (kind == OpKind::kForward && s + 1 == count) {
                     ++self.progress.gradients_ready;
                   } else if (kind == OpKind::kForward) {
                     self.link_forward =
                         std::max(self.link_forward, now) + stages[s].send_forward_ms;
                     events.push({self.link_forward, [&, s] {
                                    ++state[s + 1].progress.inputs_ready;
                                    pump(s + 1);
                                  }});
                   } else if (kind == OpKind::kBackwardInput && s > 0) {
                     self.link_backward =
                         std::max(self.link_backward, now) + stages[s].send_backward_ms;
                     events.push({self.link_backward, [&, s] {
                                    ++state[s - 1].progress.gradients_ready;
                                    pump(s - 1);
                                  }});
                   }
                   pump(s);
                 }});
  };
  for (std::size_t s = 0; s < count; ++s) {
    state[s].progress.micro_batches = micro_batches;
    state[s].progress.in_flight = bounds[s];
    if (s == 0) state[s].progress.inputs_ready = micro_batches;
    pump(s);
  }
  while (!events.empty()) {
    const Event event = events.top();
    events.pop();
    now = event.first;
    event.second();
  }
  for (const State& stage : state) EXPECT_EQ(stage.progress.weight_backwards, micro_batches);
  return now;
}

std::vector<std::uint32_t> Chosen(const std::vector<StageTimes>& stages, std::uint32_t m) {
  std::vector<std::uint32_t> bounds;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    bounds.push_back(ChooseInFlight(stages, s, m, 0));
  }
  return bounds;
}

TEST(ChooseInFlightTest, PlainWhenTransfersCostNothing) {
  const std::vector<StageTimes> stages(4, StageTimes{.forward_ms = 45, .backward_ms = 135});
  EXPECT_EQ(Chosen(stages, 100), (std::vector<std::uint32_t>{4, 3, 2, 1}));
  EXPECT_EQ(Chosen(std::vector<StageTimes>(4), 100), (std::vector<std::uint32_t>{4, 3, 2, 1}));
}

// 45 ms forward, 135 ms backward, 51 and 100 ms of transfer: two in flight take 511 ms of round
// trip on the last link, 255 ms per micro-batch instead of 180.
std::vector<StageTimes> SlowLinks() {
  return std::vector<StageTimes>(
      4, StageTimes{
             .forward_ms = 45, .backward_ms = 135, .send_forward_ms = 51, .send_backward_ms = 100});
}

TEST(ChooseInFlightTest, MoreThanTwoOnTheLastSlowLink) {
  const std::vector<std::uint32_t> bounds = Chosen(SlowLinks(), 100);
  EXPECT_EQ(bounds, (std::vector<std::uint32_t>{7, 5, 3, 1}));
}

TEST(ChooseInFlightTest, ChosenBoundsKeepThePaceOfUnlimitedOnesAndPlainOnesDoNot) {
  const std::vector<StageTimes> stages = SlowLinks();
  const double unlimited = StepTime(stages, {100, 100, 100, 100}, 100);
  EXPECT_LT(StepTime(stages, Chosen(stages, 100), 100), 1.02 * unlimited);
  EXPECT_GT(StepTime(stages, {4, 3, 2, 1}, 100), 1.3 * unlimited);
}

TEST(ChooseInFlightTest, RandomPipelinesKeepThePaceOfUnlimitedInFlight) {
  std::mt19937 random(20);
  std::uniform_real_distribution<double> compute(5, 100), transfer(0, 200);
  for (int i = 0; i < 200; ++i) {
    std::vector<StageTimes> stages(1 + random() % 6);
    for (StageTimes& stage : stages) {
      stage.forward_ms = compute(random);
      stage.backward_ms = 2 * compute(random);
      stage.send_forward_ms = transfer(random);
      stage.send_backward_ms = transfer(random);
    }
    // A few percent over a step of the length that is simulated, little more over longer ones.
    for (const auto& [micro_batches, allowed] : {std::pair(64u, 1.025), std::pair(200u, 1.12)}) {
      const std::vector<std::uint32_t> unlimited(stages.size(), micro_batches);
      EXPECT_LT(StepTime(stages, Chosen(stages, micro_batches), micro_batches),
                allowed * StepTime(stages, unlimited, micro_batches))
          << "case " << i << " with " << stages.size() << " stages";
    }
  }
}

TEST(ChooseInFlightTest, MemoryAndMicroBatchesBound) {
  std::vector<StageTimes> stages = SlowLinks();
  for (StageTimes& stage : stages) stage.micro_batch_bytes = 1000;
  EXPECT_EQ(ChooseInFlight(stages, 0, 100, 4999), 4u);
  EXPECT_EQ(ChooseInFlight(stages, 0, 100, 10), 1u);  // one is needed to go on at all
  EXPECT_EQ(ChooseInFlight(stages, 0, 100, 0), 7u);
  EXPECT_EQ(ChooseInFlight(stages, 0, 2, 0), 2u);
  EXPECT_EQ(ChooseInFlight(stages, 0, 0, 0), 1u);
}

TEST(ChooseInFlightTest, NonsenseTimesFromOtherPeersAreIgnored) {
  std::vector<StageTimes> stages(3, StageTimes{.forward_ms = 10, .backward_ms = 20});
  stages[1].forward_ms = std::numeric_limits<double>::quiet_NaN();
  stages[1].send_forward_ms = std::numeric_limits<double>::infinity();
  stages[2].backward_ms = -5;
  EXPECT_EQ(Chosen(stages, 50), (std::vector<std::uint32_t>{3, 2, 1}));
  EXPECT_EQ(ChooseInFlight(stages, 7, 50, 0), 1u);
  EXPECT_EQ(ChooseInFlight({}, 0, 50, 0), 1u);
}

}  // namespace
}  // namespace shoal::pipeline
