#include "pipeline/core/step_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>

namespace shoal::pipeline {
namespace {

// Eight stages, 32 micro-batches, 45 / 135 ms, 1024 x 1600 values.
constexpr std::uint32_t kStages = 8, kMicroBatches = 32;
constexpr double kUnlimitedRawMs = 7020;  // (32 + 8 - 1) x 180: 1F1B without a network

struct Check {
  double mbps;  // 0: unlimited
  double forward_bits, backward_bits;
  double plain, unlimited;  // fraction of the unlimited raw run; 0: not checked
};

double Fraction(const Check& check, ScheduleKind schedule, bool plain) {
  std::vector<SimulatedStage> stages(kStages);
  for (std::uint32_t s = 0; s < kStages; ++s) {
    const bool split = schedule == ScheduleKind::kZeroBubble;
    stages[s].forward_ms = 45;
    stages[s].backward_input_ms = split ? 67.5 : 135;
    stages[s].backward_weights_ms = split ? 67.5 : 0;
    stages[s].forward_bytes = 1024 * 1600 * check.forward_bits / 8;
    stages[s].backward_bytes = 1024 * 1600 * check.backward_bits / 8;
    stages[s].egress_bps = check.mbps * 1e6;
    stages[s].in_flight = plain ? kStages - s : 0;
  }
  const SimulatedStep step =
      SimulateStep(stages, {.schedule = schedule, .micro_batches = kMicroBatches});
  return kUnlimitedRawMs / step.step_ms;
}

// Values of an independent implementation. Raw messages in the plain schedule meet at the same
// instant often, and in which order those are handled moves the result in the third digit.
TEST(StepSimulationTest, ReferenceFractionsOf1f1b) {
  for (const Check& check :
       {Check{0, 32, 32, 1.000, 1.000}, Check{100, 3.125, 6.125, 0.571, 0.869},
        Check{100, 2.4, 5.2, 0.620, 0.890}, Check{500, 3.125, 6.125, 0.872, 0.971},
        Check{50, 2.125, 4.125, 0.493, 0.778}, Check{100, 32, 32, 0.154, 0.172},
        Check{100, 1.75, 1.86, 0, 0.944}, Check{50, 1.75, 1.86, 0, 0.894}}) {
    SCOPED_TRACE(std::to_string(check.mbps) + " Mbit/s, bits " +
                 std::to_string(check.forward_bits));
    if (check.plain > 0) {
      EXPECT_NEAR(Fraction(check, ScheduleKind::k1f1b, true), check.plain, 0.0025);
    }
    EXPECT_NEAR(Fraction(check, ScheduleKind::k1f1b, false), check.unlimited, 0.001);
  }
}

// The last one is for "about 2.0" bits backward: 2.1.
TEST(StepSimulationTest, ReferenceFractionsOfZeroBubble) {
  for (const Check& check : {Check{0, 32, 32, 0, 1.155}, Check{500, 3.125, 6.125, 0, 1.142},
                             Check{100, 3.125, 6.125, 0, 1.044}, Check{100, 2.4, 5.2, 0, 1.105},
                             Check{50, 2.125, 4.125, 0, 0.832}, Check{100, 1.75, 1.86, 0, 1.119},
                             Check{50, 1.75, 1.86, 0, 1.084}, Check{100, 2.69, 2.0, 0, 1.100},
                             Check{50, 2.69, 2.1, 0, 1.010}}) {
    SCOPED_TRACE(std::to_string(check.mbps) + " Mbit/s, bits " +
                 std::to_string(check.forward_bits));
    EXPECT_NEAR(Fraction(check, ScheduleKind::kZeroBubble, false), check.unlimited, 0.0025);
  }
}

std::string Name(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward: return "F";
    case SpanKind::kBackwardInput: return "B";
    case SpanKind::kBackwardWeights: return "W";
    case SpanKind::kActivation: return "a";
    case SpanKind::kGradient: return "g";
  }
  return "?";
}

// "F0 0-10 ..." of a stage, in order of time: its operations, or its messages.
std::string Timeline(const SimulatedStep& step, std::uint32_t stage, bool messages) {
  std::string text;
  for (const SimulatedSpan& span : step.spans) {
    if (span.stage != stage || (span.kind >= SpanKind::kActivation) != messages) continue;
    text += (text.empty() ? "" : " ") + Name(span.kind) + std::to_string(span.micro_batch) + " " +
            std::to_string(std::lround(span.begin_ms)) + "-" +
            std::to_string(std::lround(span.end_ms));
  }
  return text;
}

// Two stages, F 10, B 20, W 15; 5 ms for an activation, 8 for a gradient, 1 of latency.
std::vector<SimulatedStage> TwoStages() {
  SimulatedStage stage;
  stage.forward_ms = 10;
  stage.backward_input_ms = 20;
  stage.backward_weights_ms = 15;
  stage.forward_bytes = 5e3;
  stage.backward_bytes = 8e3;
  stage.egress_bps = 8e6;  // 1000 bytes per millisecond
  stage.latency_ms = 1;
  return {stage, stage};
}

// Stage 0 sends a0 at 10-15: there at 16. Stage 1 runs F0 16-26; at 26 a1 is there, too, but B0
// goes first: 26-46, and g0 46-54 is there at 55. W waits: F1 46-56, B1 56-76, then W0 and W1.
// Stage 0 gets B0 55-75, has no gradient yet and runs W0 75-90; g1, there at 85, waits till 90.
TEST(StepSimulationTest, TwoStagesZeroBubbleByHand) {
  const SimulatedStep step = SimulateStep(TwoStages(), {.micro_batches = 2});
  EXPECT_EQ(step.step_ms, 125);
  EXPECT_EQ(Timeline(step, 0, false), "F0 0-10 F1 10-20 B0 55-75 W0 75-90 B1 90-110 W1 110-125");
  EXPECT_EQ(Timeline(step, 0, true), "a0 10-15 a1 20-25");
  EXPECT_EQ(Timeline(step, 1, false), "F0 16-26 B0 26-46 F1 46-56 B1 56-76 W0 76-91 W1 91-106");
  EXPECT_EQ(Timeline(step, 1, true), "g0 46-54 g1 76-84");
  EXPECT_EQ(step.stages[0].busy_ms, 90);
  EXPECT_EQ(step.stages[0].wait_input_ms, 0);
  EXPECT_EQ(step.stages[0].wait_gradient_ms, 35);  // 20-55
  EXPECT_EQ(step.stages[0].link_busy_ms, 10);
  EXPECT_EQ(step.stages[1].wait_input_ms, 16);
  EXPECT_EQ(step.stages[1].wait_gradient_ms, 0);
  EXPECT_EQ(step.stages[1].link_busy_ms, 16);
  EXPECT_EQ(step.stages[1].done_ms, 106);
  EXPECT_EQ(step.stages[0].in_flight_most, 2u);
  EXPECT_EQ(step.stages[1].in_flight_most, 1u);
  EXPECT_EQ(step.stages[1].pending_weights_most, 2u);
}

// W in parts of 5: g1, there at 85, waits no longer, since W0 is left after its second part.
TEST(StepSimulationTest, AGradientGoesBetweenThePartsOfAWByHand) {
  std::vector<SimulatedStage> stages = TwoStages();
  for (SimulatedStage& stage : stages) stage.weight_parts = 3;
  const SimulatedStep step = SimulateStep(stages, {.micro_batches = 2});
  EXPECT_EQ(step.step_ms, 125);
  EXPECT_EQ(Timeline(step, 0, false),
            "F0 0-10 F1 10-20 B0 55-75 W0 75-80 W0 80-85 B1 85-105 W0 105-110 "
            "W1 110-115 W1 115-120 W1 120-125");
  EXPECT_EQ(step.stages[0].pending_weights_most, 2u);
  EXPECT_EQ(step.stages[0].busy_ms, 90);
}

// As with whole W, but W0 goes right after B0 on stage 1, which delays F1 to 61-71 and B1 to 71-91,
// so that g1 is there at 100 only.
TEST(StepSimulationTest, TwoStages1f1bByHand) {
  const SimulatedStep step =
      SimulateStep(TwoStages(), {.schedule = ScheduleKind::k1f1b, .micro_batches = 2});
  EXPECT_EQ(step.step_ms, 135);
  EXPECT_EQ(Timeline(step, 0, false), "F0 0-10 F1 10-20 B0 55-75 W0 75-90 B1 100-120 W1 120-135");
  EXPECT_EQ(Timeline(step, 1, false), "F0 16-26 B0 26-46 W0 46-61 F1 61-71 B1 71-91 W1 91-106");
  EXPECT_EQ(step.stages[0].wait_gradient_ms, 45);  // 20-55 and 90-100
}

// With one in flight, stage 0 sends a1 only after B0 (55-75): F1 75-85, a1 85-90, there at 91; W0
// 85-100 while it waits. Stage 1 has W0 46-61 in the gap, F1 91-101, B1 101-121, W1 121-136; g1
// 121-129 is there at 130.
TEST(StepSimulationTest, OneInFlightByHand) {
  std::vector<SimulatedStage> stages = TwoStages();
  stages[0].in_flight = stages[1].in_flight = 1;
  const SimulatedStep step = SimulateStep(stages, {.micro_batches = 2});
  EXPECT_EQ(step.step_ms, 165);
  EXPECT_EQ(Timeline(step, 0, false), "F0 0-10 B0 55-75 F1 75-85 W0 85-100 B1 130-150 W1 150-165");
  EXPECT_EQ(Timeline(step, 1, false), "F0 16-26 B0 26-46 W0 46-61 F1 91-101 B1 101-121 W1 121-136");
}

// Stage 1's egress carries both directions. g0, queued at 120 while a2 is on the line, goes at 140
// before a3. So does g1, which is ready at the instant g0 is gone.
TEST(StepSimulationTest, GradientsLeaveFirstByHand) {
  SimulatedStage stage;
  stage.forward_ms = 10;
  stage.backward_input_ms = 10;
  stage.forward_bytes = 30e3;
  stage.backward_bytes = 10e3;
  stage.egress_bps = 8e6;
  const std::vector<SimulatedStage> stages(3, stage);
  SimulationOptions options{.schedule = ScheduleKind::k1f1b, .micro_batches = 4};
  const SimulatedStep step = SimulateStep(stages, options);
  EXPECT_EQ(Timeline(step, 1, true),
            "a0 50-80 a1 80-110 a2 110-140 g0 140-150 g1 150-160 a3 160-190 g2 190-200 g3 230-240");
  EXPECT_EQ(step.step_ms, 250);
  options.shared_egress = false;  // g0 leaves at once, a3 as soon as a2 is gone
  const SimulatedStep apart = SimulateStep(stages, options);
  EXPECT_EQ(Timeline(apart, 1, true),
            "a0 50-80 a1 80-110 g0 120-130 a2 110-140 g1 150-160 a3 140-170 g2 180-190 g3 210-220");
}

TEST(StepSimulationTest, EdgesAndNonsense) {
  EXPECT_EQ(SimulateStep({}, {.micro_batches = 4}).step_ms, 0);
  std::vector<SimulatedStage> stages = TwoStages();
  EXPECT_EQ(SimulateStep(stages, {.micro_batches = 0}).step_ms, 0);
  stages.pop_back();
  const SimulatedStep alone = SimulateStep(stages, {.micro_batches = 3});
  EXPECT_EQ(alone.step_ms, 3 * 45);  // one stage sends nothing
  EXPECT_EQ(alone.stages[0].link_busy_ms, 0);
  stages.push_back({});
  stages[0].forward_ms = std::numeric_limits<double>::quiet_NaN();
  stages[0].backward_input_ms = std::numeric_limits<double>::infinity();
  stages[0].egress_bps = -1;
  stages[0].latency_ms = -5;
  const SimulatedStep nonsense = SimulateStep(stages, {.micro_batches = 3, .keep_spans = false});
  EXPECT_EQ(nonsense.step_ms, 3 * 15);
  EXPECT_TRUE(nonsense.spans.empty());
}

// Random pipelines in whole milliseconds.
struct Case {
  std::vector<SimulatedStage> stages;
  SimulationOptions options;
};

Case RandomCase(std::uint32_t seed, bool weight_parts = true) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Case result;
  result.stages.resize(1 + below(6));
  for (SimulatedStage& stage : result.stages) {
    stage.forward_ms = 1 + below(9);
    stage.backward_input_ms = 1 + below(9);
    stage.weight_parts = weight_parts ? 1 + below(3) : 1;
    stage.backward_weights_ms = (1 + below(9)) * stage.weight_parts;
    stage.forward_bytes = 1000.0 * below(12);
    stage.backward_bytes = 1000.0 * below(12);
    stage.egress_bps = 8e6;
    stage.latency_ms = below(5);
    stage.in_flight = below(6);
    stage.pending_weights_max = below(4);
  }
  result.options.schedule = below(2) == 0 ? ScheduleKind::k1f1b : ScheduleKind::kZeroBubble;
  result.options.micro_batches = 1 + below(14);
  result.options.shared_egress = below(2) == 0;
  return result;
}

// Slow reference: time goes on millisecond by millisecond, and the rules are applied as they are
// written in schedule.h and step_simulation.h. Returns the step's milliseconds.
class Ticker {
 public:
  explicit Ticker(const Case& c) : case_(c), state_(c.stages.size()) {}

  int Run() {
    const int all = static_cast<int>(case_.options.micro_batches);
    int now = 0;
    for (;; ++now) {
      while (MessagesMove(now)) {
      }
      bool done = true;
      for (std::size_t s = 0; s < state_.size(); ++s) {
        State& me = state_[s];
        if (me.busy_until <= now && me.operation == '-') Choose(s, now);
        done = done && me.w == all && me.operation == '-';
      }
      if (done) return now;
    }
  }

 private:
  struct State {
    int f = 0, b = 0, w = 0;
    std::uint32_t w_parts = 0;  // done, of the next W
    char operation = '-';
    int busy_until = 0;
    std::vector<int> inputs, gradients;  // times of arrival
    int activations_waiting = 0, gradients_waiting = 0;
    int activation_leaves = -1, gradient_leaves = -1;  // -1: none on the line
  };

  // Finishes what ends now, and starts what the line can take; false if nothing happened.
  bool MessagesMove(int now) {
    bool moved = false;
    for (std::size_t s = 0; s < state_.size(); ++s) {
      State& me = state_[s];
      const int latency = static_cast<int>(case_.stages[s].latency_ms);
      if (me.operation != '-' && me.busy_until <= now) {
        if (me.operation == 'F' && s + 1 < state_.size()) ++me.activations_waiting;
        if (me.operation == 'F' && s + 1 == state_.size()) me.gradients.push_back(now);
        if (me.operation == 'B' && s > 0) ++me.gradients_waiting;
        if (me.operation == 'W' && ++me.w_parts == case_.stages[s].weight_parts) {
          me.w_parts = 0;
          ++me.w;
        }
        me.operation = '-';
        moved = true;
      }
      if (me.activation_leaves >= 0 && me.activation_leaves <= now) {
        state_[s + 1].inputs.push_back(me.activation_leaves + latency);
        me.activation_leaves = -1;
        moved = true;
      }
      if (me.gradient_leaves >= 0 && me.gradient_leaves <= now) {
        state_[s - 1].gradients.push_back(me.gradient_leaves + latency);
        me.gradient_leaves = -1;
        moved = true;
      }
    }
    if (moved) return true;  // all that ends now ends before anything starts
    for (std::size_t s = 0; s < state_.size(); ++s) {
      State& me = state_[s];
      const bool shared = case_.options.shared_egress;
      if (me.gradients_waiting > 0 && me.gradient_leaves < 0 &&
          !(shared && me.activation_leaves >= 0)) {
        --me.gradients_waiting;
        me.gradient_leaves = now + static_cast<int>(case_.stages[s].backward_bytes / 1000);
        moved = true;
      }
      if (me.activations_waiting > 0 && me.activation_leaves < 0 &&
          !(shared && me.gradient_leaves >= 0)) {
        --me.activations_waiting;
        me.activation_leaves = now + static_cast<int>(case_.stages[s].forward_bytes / 1000);
        moved = true;
      }
    }
    return moved;
  }

  void Choose(std::size_t s, int now) {
    State& me = state_[s];
    const SimulatedStage& stage = case_.stages[s];
    const int all = static_cast<int>(case_.options.micro_batches);
    const auto there = [&](const std::vector<int>& times, int index) {
      return index < static_cast<int>(times.size()) &&
             times[static_cast<std::size_t>(index)] <= now;
    };
    const auto within = [](int count, std::uint32_t bound) {
      return bound == 0 || count < static_cast<int>(bound);
    };
    const bool can_b = me.b < me.f && there(me.gradients, me.b);
    const bool can_f =
        me.f < all && (s == 0 || there(me.inputs, me.f)) && within(me.f - me.b, stage.in_flight);
    const bool can_w = me.w < me.b;
    const auto start = [&](char operation, double cost) {
      me.operation = operation;
      me.busy_until = now + static_cast<int>(cost);
      if (operation == 'F') ++me.f;
      if (operation == 'B') ++me.b;
    };
    const double w_part = stage.backward_weights_ms / stage.weight_parts;
    const bool w_first = case_.options.schedule == ScheduleKind::k1f1b ||
                         (can_b && !within(me.b - me.w, stage.pending_weights_max));
    if (can_w && w_first) return start('W', w_part);
    if (can_b) return start('B', stage.backward_input_ms);
    if (can_f) return start('F', stage.forward_ms);
    if (can_w) return start('W', w_part);
  }

  const Case& case_;
  std::vector<State> state_;
};

TEST(StepSimulationTest, AgreesWithTimeStepping) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case c = RandomCase(seed);
    EXPECT_EQ(SimulateStep(c.stages, c.options).step_ms, Ticker(c).Run());
  }
}

// The longest path through the realised order: everything begins as soon as what it is made of is
// there and what went before it in its place is done.
TEST(StepSimulationTest, EqualsTheLongestPathThroughItsOrder) {
  using Key = std::tuple<SpanKind, std::uint32_t, std::uint32_t>;  // kind, stage, micro-batch
  using enum SpanKind;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case c = RandomCase(seed, false);
    const SimulatedStep step = SimulateStep(c.stages, c.options);
    const auto last = static_cast<std::uint32_t>(c.stages.size()) - 1;
    std::map<Key, double> end;
    for (const SimulatedSpan& span : step.spans) {
      EXPECT_TRUE(end.emplace(Key{span.kind, span.stage, span.micro_batch}, span.end_ms).second);
    }
    ASSERT_EQ(end.size(), c.options.micro_batches * (3 * c.stages.size() + 2 * last));
    std::map<std::pair<std::uint32_t, int>, double> place_free;  // of a stage: compute, links
    for (const SimulatedSpan& span : step.spans) {
      const std::uint32_t s = span.stage;
      const auto ended = [&](SpanKind kind, std::uint32_t stage) {
        return end.at({kind, stage, span.micro_batch});
      };
      double ready = 0;
      if (span.kind == kForward && s > 0) {
        ready = ended(kActivation, s - 1) + c.stages[s - 1].latency_ms;
      } else if (span.kind == kBackwardInput && s < last) {
        ready = ended(kGradient, s + 1) + c.stages[s + 1].latency_ms;
      } else if (span.kind == kBackwardInput || span.kind == kActivation) {
        ready = ended(kForward, s);
      } else if (span.kind == kBackwardWeights || span.kind == kGradient) {
        ready = ended(kBackwardInput, s);
      }
      const bool message = span.kind == kActivation || span.kind == kGradient;
      const int link = span.kind == kGradient && !c.options.shared_egress ? 2 : 1;
      double& free = place_free[{s, message ? link : 0}];
      EXPECT_EQ(span.begin_ms, std::max(ready, free)) << Name(span.kind) << span.micro_batch;
      free = span.end_ms;
    }
  }
}

TEST(StepSimulationTest, NeverBeatsComputeOrLinksAndKeepsTheBounds) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case c = RandomCase(seed);
    const SimulatedStep step = SimulateStep(c.stages, c.options);
    const double m = c.options.micro_batches;
    double before = 0;  // least time until the first input of the stage
    for (std::size_t s = 0; s < c.stages.size(); ++s) {
      const SimulatedStage& stage = c.stages[s];
      const SimulatedStageTimes& times = step.stages[s];
      const bool last = s + 1 == c.stages.size();
      const double each = stage.forward_ms + stage.backward_input_ms + stage.backward_weights_ms;
      EXPECT_EQ(times.busy_ms, m * each);
      EXPECT_GE(times.done_ms, before + m * each);
      EXPECT_GE(step.step_ms, times.done_ms);
      EXPECT_EQ(times.busy_ms + times.wait_input_ms + times.wait_gradient_ms, times.done_ms);
      const double forward = last ? 0 : stage.forward_bytes * 8 / stage.egress_bps * 1e3;
      const double backward = s == 0 ? 0 : stage.backward_bytes * 8 / stage.egress_bps * 1e3;
      EXPECT_EQ(times.link_busy_ms, m * (forward + backward));
      const double line =
          c.options.shared_egress ? forward + backward : std::max(forward, backward);
      EXPECT_GE(step.step_ms, before + stage.forward_ms + m * line);
      if (stage.in_flight > 0) {
        EXPECT_LE(times.in_flight_most, stage.in_flight);
      }
      if (stage.pending_weights_max > 0) {
        EXPECT_LE(times.pending_weights_most, stage.pending_weights_max);
      }
      before += stage.forward_ms + forward + stage.latency_ms;
    }
    EXPECT_EQ(step.stages.size(), c.stages.size());
  }
}

}  // namespace
}  // namespace shoal::pipeline
