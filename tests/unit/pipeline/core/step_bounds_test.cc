#include "pipeline/core/step_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include "pipeline/core/step_simulation.h"

namespace shoal::pipeline {
namespace {

constexpr std::uint32_t kStages = 8, kMicroBatches = 32;

// What a line that both directions share makes of the stages of issue-sized messages: times of
// transfer at `mbps` of 1024 x 1600 values.
std::vector<SimulatedStage> Stages(double mbps, double forward_bits, double backward_bits) {
  SimulatedStage stage;
  stage.forward_ms = 45;
  stage.backward_input_ms = stage.backward_weights_ms = 67.5;
  stage.forward_bytes = 1024 * 1600 * forward_bits / 8;
  stage.backward_bytes = 1024 * 1600 * backward_bits / 8;
  stage.egress_bps = mbps * 1e6;
  return std::vector<SimulatedStage>(kStages, stage);
}

// What stages would measure of these: transfers without the other direction, and the first round
// trip of a step. `codec_ms` is for encoding, distance and decoding each way.
std::vector<StageTimes> MeasuredTimes(const std::vector<SimulatedStage>& stages, double codec_ms) {
  std::vector<StageTimes> times(stages.size());
  double round_trip = 0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    const SimulatedStage& stage = stages[s];
    times[s].forward_ms = stage.forward_ms;
    times[s].backward_input_ms = stage.backward_input_ms;
    times[s].backward_weights_ms = stage.backward_weights_ms;
    times[s].send_forward_ms = stage.forward_bytes * 8e3 / stage.egress_bps;
    times[s].send_backward_ms = stage.backward_bytes * 8e3 / stage.egress_bps;
    if (s + 1 < stages.size()) {
      round_trip += times[s].send_forward_ms + times[s + 1].send_backward_ms + 2 * codec_ms +
                    stages[s + 1].forward_ms + stages[s + 1].backward_input_ms;
      times[s].round_trip_ms = round_trip;
    }
    times[s].micro_batch_bytes = 1000;
    times[s].pending_weights_bytes = 500;
  }
  return times;
}

std::vector<StepBounds> ChooseAll(const std::vector<StageTimes>& times, BoundsRequest request) {
  std::vector<StepBounds> result;
  for (request.stage = 0; request.stage < times.size(); ++request.stage) {
    result.push_back(ChooseBounds(times, request));
  }
  return result;
}

double StepMs(std::vector<SimulatedStage> stages, const std::vector<StepBounds>& bounds,
              std::uint32_t micro_batches) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].in_flight = bounds[s].in_flight;
    stages[s].pending_weights_max = bounds[s].pending_weights_max;
  }
  return SimulateStep(stages, {.schedule = bounds[0].schedule, .micro_batches = micro_batches})
      .step_ms;
}

double UnlimitedMs(const std::vector<SimulatedStage>& stages, ScheduleKind kind,
                   std::uint32_t micro_batches) {
  return SimulateStep(stages, {.schedule = kind, .micro_batches = micro_batches}).step_ms;
}

TEST(ChooseBoundsTest, ChosenBoundsKeepThePaceOfUnlimitedOnesOnSharedLines) {
  struct Line {
    double mbps, forward_bits, backward_bits;
  };
  for (const Line& line :
       {Line{1e6, 3, 6}, Line{500, 3.125, 6.125}, Line{300, 3.125, 6.125}, Line{100, 3.125, 6.125},
        Line{100, 2.4, 5.2}, Line{100, 2.69, 2}, Line{50, 2.69, 2}, Line{50, 1.75, 1.86},
        Line{50, 2.125, 4.125}, Line{100, 32, 32}}) {
    for (const double codec_ms : {0.0, 50.0}) {
      for (const SchedulePolicy policy :
           {SchedulePolicy::k1f1b, SchedulePolicy::kZeroBubble, SchedulePolicy::kAuto}) {
        SCOPED_TRACE(std::to_string(line.mbps) + " Mbit/s, " + std::to_string(line.forward_bits) +
                     " bits, codec " + std::to_string(codec_ms) + " ms, policy " +
                     std::to_string(static_cast<int>(policy)));
        std::vector<SimulatedStage> stages =
            Stages(line.mbps, line.forward_bits, line.backward_bits);
        const std::vector<StageTimes> times = MeasuredTimes(stages, codec_ms);
        for (SimulatedStage& stage : stages) stage.latency_ms = codec_ms;
        const std::vector<StepBounds> bounds =
            ChooseAll(times, {.micro_batches = kMicroBatches, .policy = policy});
        if (policy == SchedulePolicy::kAuto) {
          EXPECT_EQ(bounds[0].schedule, ScheduleKind::kZeroBubble);
        }
        EXPECT_LT(StepMs(stages, bounds, kMicroBatches),
                  1.03 * UnlimitedMs(stages, bounds[0].schedule, kMicroBatches));
      }
    }
  }
}

TEST(ChooseBoundsTest, LittlesLawOnALineWithoutContention) {
  // Two stages, F + B + W = 30 ms, 20 ms of line each way. The first stage's micro-batch is away
  // for 30 + 20 + 30 + 20 = 100 ms. So 3.3 must be in flight to start one each 30 ms; twice that,
  // since times vary. The last stage never has more than one.
  StageTimes stage;
  stage.forward_ms = 10;
  stage.backward_input_ms = 20;
  stage.send_forward_ms = stage.send_backward_ms = 20;
  const std::vector<StepBounds> bounds =
      ChooseAll({stage, stage}, {.micro_batches = 100, .policy = SchedulePolicy::k1f1b});
  EXPECT_EQ(bounds[0].in_flight, 7u);
  EXPECT_EQ(bounds[1].in_flight, 1u);
  EXPECT_EQ(bounds[0].pending_weights_max, 1u);
  EXPECT_EQ(bounds[0].unlimited_ms, 10 + 20 + 64 * 30 + 20 + 20);  // 64 are simulated
  EXPECT_LE(bounds[0].simulated_ms, 1.01 * bounds[0].unlimited_ms);
}

TEST(ChooseBoundsTest, BoundsFallSlowlyAndWithinMemory) {
  StageTimes stage;
  stage.forward_ms = stage.backward_input_ms = stage.backward_weights_ms = 10;
  stage.micro_batch_bytes = 10;
  const std::vector<StageTimes> times(4, stage);
  BoundsRequest request{.micro_batches = 100};
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 8u);  // twice the plain bound
  EXPECT_GE(ChooseBounds(times, request).pending_weights_max, 4u);
  request.previous.in_flight = 40;
  request.previous.pending_weights_max = 64;
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 35u);
  EXPECT_GE(ChooseBounds(times, request).pending_weights_max, 56u);
  request.stage = 3;
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 1u);
  request.stage = 0;
  request.micro_batches = 20;
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 20u);
  EXPECT_EQ(ChooseBounds(times, request).pending_weights_max, 20u);
  request.memory_bytes = 200;
  const StepBounds cut = ChooseBounds(times, request);
  EXPECT_LE(10 * (cut.in_flight + cut.pending_weights_max), 200u);
}

TEST(ChooseBoundsTest, TimeInCodecAndQueuesNeedsMoreInFlight) {
  const std::vector<SimulatedStage> stages = Stages(500, 3.125, 6.125);
  const BoundsRequest request{.micro_batches = 64};
  const StepBounds quick = ChooseBounds(MeasuredTimes(stages, 0), request);
  const StepBounds slow = ChooseBounds(MeasuredTimes(stages, 80), request);
  EXPECT_GT(slow.in_flight, quick.in_flight + 3);
}

TEST(ChooseBoundsTest, RandomPipelinesKeepThePaceOfUnlimitedBounds) {
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> compute(5, 100), transfer(0, 200);
    std::vector<SimulatedStage> stages(1 + random() % 6);
    for (SimulatedStage& stage : stages) {
      stage.forward_ms = compute(random);
      stage.backward_input_ms = compute(random);
      stage.backward_weights_ms = compute(random);
      stage.forward_bytes = 1000 * transfer(random);
      stage.backward_bytes = 1000 * transfer(random);
      stage.egress_bps = 8e6;
    }
    const std::vector<StageTimes> times = MeasuredTimes(stages, 0);
    const SchedulePolicy policy =
        seed % 2 == 0 ? SchedulePolicy::k1f1b : SchedulePolicy::kZeroBubble;
    // A few percent over a step of the length that is simulated, little more over longer ones.
    for (const auto& [micro_batches, allowed] : {std::pair(64u, 1.08), std::pair(200u, 1.12)}) {
      const std::vector<StepBounds> bounds =
          ChooseAll(times, {.micro_batches = micro_batches, .policy = policy});
      EXPECT_LT(StepMs(stages, bounds, micro_batches),
                allowed * UnlimitedMs(stages, bounds[0].schedule, micro_batches))
          << "seed " << seed << " with " << stages.size() << " stages";
    }
  }
}

TEST(ChooseBoundsTest, MemoryHoldsInFlightAndPendingTogether) {
  const std::vector<StageTimes> times = MeasuredTimes(Stages(100, 2.69, 2), 10);
  const StepBounds free = ChooseBounds(times, {.micro_batches = 32});
  ASSERT_GT(free.in_flight, 12u);
  ASSERT_GT(free.pending_weights_max, 2u);
  double before = 0;
  for (const std::uint64_t memory : {1500ull, 3000ull, 6000ull, 9000ull, 14000ull, 100000ull}) {
    for (std::uint32_t stage = 0; stage < kStages; ++stage) {
      const StepBounds bounds =
          ChooseBounds(times, {.stage = stage, .micro_batches = 32, .memory_bytes = memory});
      const std::uint64_t pending =
          bounds.schedule == ScheduleKind::k1f1b ? 0 : 500 * bounds.pending_weights_max;
      EXPECT_LE(1000 * bounds.in_flight + pending, memory) << "stage " << stage;
      EXPECT_EQ(1000 * bounds.in_flight + pending, bounds.memory_bytes);
    }
    const StepBounds first = ChooseBounds(times, {.micro_batches = 32, .memory_bytes = memory});
    if (before > 0) {
      EXPECT_LE(first.simulated_ms, before) << memory;
    }
    before = first.simulated_ms;
  }
  EXPECT_EQ(before, free.simulated_ms);
}

TEST(ChooseBoundsTest, WithoutMemoryForPendingWeightsItIs1f1b) {
  const std::vector<StageTimes> times = MeasuredTimes(Stages(100, 2.69, 2), 10);
  BoundsRequest request{.micro_batches = 32, .memory_bytes = 1499};
  EXPECT_EQ(ChooseBounds(times, request).schedule, ScheduleKind::k1f1b);
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 1u);
  request.memory_bytes = 10;  // one is needed to go on at all
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 1u);
  request.policy = SchedulePolicy::kZeroBubble;  // as asked for, at its least
  EXPECT_EQ(ChooseBounds(times, request).schedule, ScheduleKind::kZeroBubble);
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 1u);
  EXPECT_EQ(ChooseBounds(times, request).pending_weights_max, 1u);
}

TEST(ChooseBoundsTest, AnInFlightBoundFromTheConfigStays) {
  const std::vector<StageTimes> times = MeasuredTimes(Stages(100, 2.69, 2), 10);
  BoundsRequest request{.micro_batches = 32, .in_flight_max = 3, .memory_bytes = 4000};
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 3u);
  EXPECT_LE(ChooseBounds(times, request).pending_weights_max, 2u);
  request.micro_batches = 2;
  EXPECT_EQ(ChooseBounds(times, request).in_flight, 3u);
}

TEST(ChooseBoundsTest, BeforeTheFirstStepSlowLinesAreAssumed) {
  for (const StepBounds& bounds : ChooseAll(std::vector<StageTimes>(4), {.micro_batches = 50})) {
    EXPECT_EQ(bounds.schedule, ScheduleKind::kZeroBubble);
    EXPECT_EQ(bounds.simulated_ms, 0);
  }
  EXPECT_GT(ChooseBounds(std::vector<StageTimes>(4), {.micro_batches = 50}).in_flight, 4u);
  EXPECT_EQ(ChooseBounds(std::vector<StageTimes>(4), {.micro_batches = 2}).in_flight, 2u);
}

TEST(ChooseBoundsTest, NonsenseFromOtherPeersIsIgnored) {
  std::vector<StageTimes> times(3);
  for (StageTimes& stage : times) {
    stage.forward_ms = 10;
    stage.backward_input_ms = 20;
  }
  const std::vector<StepBounds> sane = ChooseAll(times, {.micro_batches = 50});
  EXPECT_EQ(sane[2].in_flight, 1u);
  times[1].send_forward_ms = std::numeric_limits<double>::infinity();
  times[1].send_backward_ms = std::numeric_limits<double>::quiet_NaN();
  times[1].backward_weights_ms = -5;
  times[0].round_trip_ms = std::numeric_limits<double>::quiet_NaN();
  times[2].send_forward_ms = 1e9;  // the last stage sends nothing forward
  const std::vector<StepBounds> chosen = ChooseAll(times, {.micro_batches = 50});
  for (std::size_t s = 0; s < times.size(); ++s) {
    EXPECT_EQ(chosen[s].in_flight, sane[s].in_flight);
    EXPECT_EQ(chosen[s].pending_weights_max, sane[s].pending_weights_max);
  }
  times[1].forward_ms = 1e308;
  EXPECT_GE(ChooseBounds(times, {.micro_batches = 50}).in_flight, 1u);
  EXPECT_EQ(ChooseBounds(times, {.stage = 7, .micro_batches = 50}).in_flight, 1u);
  EXPECT_EQ(ChooseBounds({}, {.micro_batches = 50}).in_flight, 1u);
  EXPECT_EQ(ChooseBounds(times, {.micro_batches = 0}).in_flight, 1u);
}

TEST(ParseSchedulePolicyTest, KnowsThree) {
  EXPECT_EQ(ParseSchedulePolicy("").value(), SchedulePolicy::kAuto);
  EXPECT_EQ(ParseSchedulePolicy("auto").value(), SchedulePolicy::kAuto);
  EXPECT_EQ(ParseSchedulePolicy("1f1b").value(), SchedulePolicy::k1f1b);
  EXPECT_EQ(ParseSchedulePolicy("zero-bubble").value(), SchedulePolicy::kZeroBubble);
  EXPECT_EQ(ParseSchedulePolicy("gpipe").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::pipeline
