// Whole swarms in virtual time that train without accidents.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "compression/codecs/aqsgd/delta_guard.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using compression::DeltaMode;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::uint64_t> checksums;
};

Trained Train(const SwarmOptions& options, std::uint64_t steps, SimSwarm* swarm) {
  SCOPED_TRACE("seed " + std::to_string(options.seed));
  EXPECT_TRUE(swarm->Open(0)) << Why(*swarm);
  EXPECT_TRUE(swarm->TrainTo(steps)) << Why(*swarm);
  Trained trained{swarm->losses_, {}};
  for (const auto& peer : swarm->peers()) {
    trained.checksums.push_back(peer->model_->WeightChecksum());
    EXPECT_EQ(peer->tiny().kept(), 0u);
  }
  return trained;
}

class Grid : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Grid, RawTrainsAsASingleStageDoesAndRepeatsBitForBit) {
  SwarmOptions single;
  single.stages = 1;
  SimSwarm reference(single);
  const Trained expected = Train(single, 8, &reference);
  ASSERT_EQ(expected.losses.size(), 8u);
  EXPECT_LT(expected.losses.back(), expected.losses.front());

  SwarmOptions options;
  options.stages = std::get<0>(GetParam());
  options.pipelines = std::get<1>(GetParam());
  SimSwarm swarm(options);
  const Trained trained = Train(options, 8, &swarm);
  ASSERT_EQ(trained.losses.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(trained.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i;
  }
  for (std::uint32_t p = 0; p < options.pipelines; ++p) {
    for (std::uint32_t s = 0; s < options.stages; ++s) {
      EXPECT_EQ(swarm.at(s, p).model_->WeightChecksum(), swarm.at(s, 0).model_->WeightChecksum());
      for (std::uint32_t l = 0; l < swarm.shape_.layers; ++l) {
        const std::vector<float> layer = swarm.at(s, p).tiny().Layer(l);
        if (!layer.empty()) ExpectNear(layer, reference.at(0, 0).tiny().Layer(l), 1e-5);
      }
    }
    const auto& weights = swarm.at(options.stages - 1, p).tiny().weights();
    const std::vector<float> first = swarm.at(0, p).tiny().Embedding();
    ExpectNear(first, reference.at(0, 0).tiny().Embedding(), 1e-5);
    if (options.stages > 1) {
      EXPECT_TRUE(std::equal(first.begin(), first.end(), weights.end() - first.size()))
          << "the tied embedding differs between first and last stage";
    }
  }

  // Another seed means other delays: the result does not depend on when things arrive.
  options.seed = 999;
  SimSwarm again(options);
  EXPECT_EQ(Train(options, 8, &again).checksums, trained.checksums);
}

INSTANTIATE_TEST_SUITE_P(All, Grid,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 2, 3)));

TEST(TrainingSimTest, UntiedHeadsNeedNoExchange) {
  SwarmOptions options;
  options.tied = false;
  options.stages = 1;
  SimSwarm single(options);
  const Trained expected = Train(options, 4, &single);
  options.stages = 3;
  SimSwarm swarm(options);
  const Trained trained = Train(options, 4, &swarm);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(trained.losses[i], expected.losses[i], 1e-5 * expected.losses[i]);
  }
}

TEST(TrainingSimTest, UnequalPipelinesAreWeightedByTheirLabels) {
  SwarmOptions options;
  options.micro_batches = 5;
  options.stages = 1;
  SimSwarm single(options);
  const Trained expected = Train(options, 6, &single);
  options.stages = 2;
  options.pipelines = 3;  // 2, 2 and 1 micro-batches
  SimSwarm swarm(options);
  const Trained trained = Train(options, 6, &swarm);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(trained.losses[i], expected.losses[i], 1e-5 * expected.losses[i]);
  }
}

TEST(TrainingSimTest, APipelineWithoutMicroBatchesTakesPart) {
  SwarmOptions options;
  options.micro_batches = 2;
  options.pipelines = 3;
  SimSwarm swarm(options);
  Train(options, 4, &swarm);
  EXPECT_EQ(swarm.at(0, 2).model_->WeightChecksum(), swarm.at(0, 0).model_->WeightChecksum());
}

TEST(TrainingSimTest, SchedulesGiveTheSameBits) {
  SwarmOptions options;
  options.stages = 4;
  options.micro_batches = 12;
  options.forward = "aqsgd:bits=4";
  options.backward = "direct:bits=8";
  options.policy = SchedulePolicy::k1f1b;
  SimSwarm plain(options);
  const Trained expected = Train(options, 6, &plain);
  EXPECT_EQ(plain.at(3, 0).runner_->stats().bounds.schedule, ScheduleKind::k1f1b);
  for (const std::uint64_t memory : {0ull, 2000ull, 5000ull, 20000ull}) {
    options.policy = SchedulePolicy::kZeroBubble;
    options.activation_memory_bytes = memory;
    SimSwarm swarm(options);
    const Trained trained = Train(options, 6, &swarm);
    EXPECT_EQ(swarm.at(3, 0).runner_->stats().bounds.schedule, ScheduleKind::kZeroBubble);
    EXPECT_EQ(trained.losses, expected.losses) << memory;
    EXPECT_EQ(trained.checksums, expected.checksums) << memory;
  }
}

TEST(TrainingSimTest, BoundsOnInFlightDoNotChangeTheResult) {
  SwarmOptions options;
  options.stages = 3;
  options.micro_batches = 9;
  std::vector<std::uint64_t> first;
  for (const std::uint32_t bound : {1u, 2u, 9u, 0u}) {
    options.in_flight_max = bound;
    SimSwarm swarm(options);
    const std::vector<std::uint64_t> checksums = Train(options, 5, &swarm).checksums;
    if (first.empty()) first = checksums;
    EXPECT_EQ(checksums, first) << "in flight " << bound;
    for (const auto& peer : swarm.peers()) {
      const RunnerStats stats = peer->runner_->stats();
      if (bound > 0) {
        EXPECT_EQ(stats.bounds.in_flight, bound);
      }
      EXPECT_EQ(stats.micro_batches_done, 5u * 9);
    }
  }
}

class Quantised : public testing::TestWithParam<std::string> {};

TEST_P(Quantised, BothEndsHoldTheSameMAfterEveryStep) {
  SwarmOptions options;
  options.stages = 3;
  options.pipelines = 2;
  options.forward = GetParam();
  options.backward = "direct:bits=8";
  SimSwarm swarm(options);
  const Trained trained = Train(options, 12, &swarm);
  EXPECT_EQ(swarm.checksums_compared_, 12u * 2 * 2);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  EXPECT_LT(trained.losses.back(), trained.losses.front());
  const RunnerStats stats = swarm.at(1, 0).runner_->stats();
  // Two places, three micro-batches of two samples per step; first epoch: first visits.
  EXPECT_EQ(stats.first_visits, 2u * 3 * 3 * 2);
  EXPECT_EQ(stats.delta_hits, 2u * 9 * 3 * 2);
  EXPECT_EQ(stats.resends, 0u);
  EXPECT_LT(stats.forward.wire_sent, stats.forward.raw_sent);
  EXPECT_EQ(stats.forward.raw_sent, 12u * 6 * swarm.shape_.row_tokens * swarm.shape_.hidden * 4);
  EXPECT_EQ(stats.backward.raw_sent, stats.forward.raw_sent);

  options.seed = 4242;
  SimSwarm again(options);
  EXPECT_EQ(Train(options, 12, &again).checksums, trained.checksums);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Quantised,
                         testing::Values("aqsgd:bits=4", "aqsgd:bits=2",
                                         "aqsgd:bits=8,first_visit=direct:bits=8"));

class Replicas : public testing::TestWithParam<const char*> {};

TEST_P(Replicas, StayEqualToTheBitAndTrain) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 3;
  SimSwarm exact(options);
  const Trained expected = Train(options, 12, &exact);
  options.replica = GetParam();
  SimSwarm swarm(options);
  const Trained trained = Train(options, 12, &swarm);
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    for (std::uint32_t p = 1; p < options.pipelines; ++p) {
      EXPECT_EQ(swarm.at(s, p).model_->WeightChecksum(), swarm.at(s, 0).model_->WeightChecksum());
    }
    EXPECT_NE(swarm.at(s, 0).model_->WeightChecksum(), exact.at(s, 0).model_->WeightChecksum());
    const auto &own = swarm.at(s, 0).runner_->stats().replica,
               &plain = exact.at(s, 0).runner_->stats().replica;
    EXPECT_EQ(own.raw_sent, plain.raw_sent);
    EXPECT_EQ(own.raw_received, plain.raw_received);
    EXPECT_NE(own.wire_sent, plain.wire_sent);  // a row is longer than this model's gradient
  }
  EXPECT_NEAR(trained.losses.back(), expected.losses.back(), 0.05 * expected.losses.back());

  SimSwarm again(options);
  EXPECT_EQ(Train(options, 12, &again).checksums, trained.checksums);
}

INSTANTIATE_TEST_SUITE_P(Methods, Replicas,
                         testing::Values("average:dtype=bf16", "average:codec=dithered:step=0.5",
                                         "average:codec=direct:bits=4/bucket=64",
                                         "average:codec=direct:bits=8/bucket=64,feedback=false"));

struct MethodCase {
  const char *method, *reference;  // replica methods
  double tolerance;                // relative, of the last losses
};

// Methods with a memory over steps, behind a warm-up, next to what they approximate.
class ReplicaSteps : public testing::TestWithParam<MethodCase> {};

// Sanitized programs are ten times slower.
#if defined(SHOAL_SANITIZED)
constexpr bool kHundredSteps = false;
#else
constexpr bool kHundredSteps = true;
#endif

TEST_P(ReplicaSteps, HundredStepsKeepReplicasEqualToTheBit) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 3;
  options.adamw = true;
  options.learning_rate = [](std::uint64_t step) { return step < 60 ? 2e-3 : 1e-3; };
  constexpr std::uint64_t kSteps = kHundredSteps ? 100 : 30;
  options.replica = GetParam().reference;
  SimSwarm exact(options);
  const Trained expected = Train(options, kSteps, &exact);
  options.replica = GetParam().method;
  SimSwarm swarm(options);
  const Trained trained = Train(options, kSteps, &swarm);
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    for (std::uint32_t p = 1; p < options.pipelines; ++p) {
      EXPECT_EQ(swarm.at(s, p).model_->WeightChecksum(), swarm.at(s, 0).model_->WeightChecksum());
    }
  }
  const std::vector<float> first = swarm.at(0, 0).tiny().Embedding();
  const auto& last = swarm.at(1, 0).tiny().weights();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), last.end() - first.size()));
  if (kHundredSteps) {  // some methods begin with exact steps
    EXPECT_NE(trained.checksums, expected.checksums);
    EXPECT_NEAR(trained.losses.back(), expected.losses.back(),
                GetParam().tolerance * expected.losses.back());
    EXPECT_LT(trained.losses.back(), 0.5 * trained.losses.front());
  }

  options.seed = 31;  // other delays
  SimSwarm again(options);
  EXPECT_EQ(Train(options, kSteps, &again).checksums, trained.checksums);
}

constexpr char kExactMomentum[] = "qadam:bits=32,start=20";
// A rank of 1 is little for matrices of 8 x 8: powersgd only has to train. So has cocktail, of
// whose gradients Adam sees a value in four steps at a time.
INSTANTIATE_TEST_SUITE_P(
    Methods, ReplicaSteps,
    testing::Values(MethodCase{"powersgd:rank=1,start=10", "average", 0.6},
                    MethodCase{"powersgd:rank=1,start=10,stages=1", "average", 0.3},
                    MethodCase{"cocktail:random=0.5,top=0.5", "average", 0.8},
                    MethodCase{"qadam:bits=8,bucket=64,start=20", kExactMomentum, 0.002},
                    MethodCase{"qadam:bits=4,bucket=64,start=20", kExactMomentum, 0.02},
                    MethodCase{"qadam:bits=2,bucket=32,start=20", kExactMomentum, 0.1},
                    MethodCase{"onebit:bucket=64,start=20", kExactMomentum, 0.15},
                    MethodCase{"marsit:every=10,start=20", kExactMomentum, 0.3},
                    MethodCase{"marsit:every=50,shape=torus,start=20", kExactMomentum, 0.5},
                    MethodCase{"marsit:start=20", kExactMomentum, 0.5},
                    MethodCase{"qadam:bits=8,bucket=64,start=20,refresh=on",
                               "qadam:bits=32,start=20,refresh=on", 0.02}));
INSTANTIATE_TEST_SUITE_P(
    Sharded, ReplicaSteps,
    testing::Values(
        MethodCase{"qsdp:weights=8,gradients=8,bucket=16,raw_below=100", "average", 0.05},
        MethodCase{"qsdp:weights=8,gradients=32,bucket=64,raw_below=1", "average", 0.05},
        MethodCase{"qsdp:delta=true,gradients=8,bucket=32,raw_below=1", "average", 0.05},
        MethodCase{"qsdp:weights=8,gradients=8,bucket=16,raw_below=100,lan=1-2", "average", 0.05},
        MethodCase{"qsdp:weights=3,gradients=4,bucket=32,raw_below=1,levels=learned,"
                   "delta=true,learn=10/50",
                   "average", 0.2}));

// What the scheduler decides late is what a run would do that was told so from the beginning.
TEST(TrainingSimTest, StagesOfPowerSgdChosenOnTheWay) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 2;
  options.adamw = true;
  options.learning_rate = [](std::uint64_t) { return 2e-3; };
  options.bucket_values_min = 1 << 20;  // Q begins by the place in the bucket
  options.replica = "powersgd:rank=1,start=20,stages=1";
  SimSwarm told(options);
  const Trained expected = Train(options, 30, &told);
  options.replica = "powersgd:rank=1,start=10,stages=auto";
  options.exact_stages = [](std::uint64_t step) {
    return step < 20 ? std::vector<std::uint32_t>{0, 1} : std::vector<std::uint32_t>{0};
  };
  SimSwarm swarm(options);
  EXPECT_EQ(Train(options, 30, &swarm).checksums, expected.checksums);
  const replica::ExactExchange exact = swarm.at(0, 1).runner_->stats().exchange;
  EXPECT_GT(exact.ms, 0);
  EXPECT_GT(exact.values, exact.factor_values);
  EXPECT_GT(exact.factor_values, 0u);
  EXPECT_EQ(swarm.at(1, 1).runner_->stats().exchange.values, 0u);  // it went as factors
}

// With one momentum for all, exact and unclipped, it does not matter over how many pipelines a
// step's micro-batches are spread.
TEST(TrainingSimTest, ExactMomentaDoNotDependOnTheNumberOfPipelines) {
  std::vector<std::vector<double>> losses;
  for (const std::uint32_t pipelines : {2u, 3u}) {
    SwarmOptions options;
    options.stages = 2;
    options.pipelines = pipelines;
    options.adamw = true;
    options.clip_norm = 0;
    options.replica = kExactMomentum;
    options.learning_rate = [](std::uint64_t) { return 2e-3; };
    SimSwarm swarm(options);
    losses.push_back(Train(options, 60, &swarm).losses);
  }
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_NEAR(losses[0][i], losses[1][i], 1e-4 * losses[0][i]) << i;
  }
}

class HistoryFree : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(HistoryFree, CodecsTrainWithoutAnyStore) {
  SwarmOptions options;
  options.stages = 3;
  options.pipelines = 2;
  options.forward = GetParam().first;
  options.backward = GetParam().second;
  SimSwarm swarm(options);
  const Trained trained = Train(options, 12, &swarm);
  ASSERT_EQ(trained.losses.size(), 12u);
  EXPECT_LT(trained.losses.back(), trained.losses.front());
  EXPECT_EQ(swarm.at(0, 0).store_->stats().records, 0u);
  const RunnerStats stats = swarm.at(1, 0).runner_->stats();
  EXPECT_LT(stats.forward.wire_sent, stats.forward.raw_sent);
  EXPECT_LT(stats.backward.wire_sent, stats.backward.raw_sent);
  // Other delays, the same bits.
  options.seed = 77;
  SimSwarm again(options);
  EXPECT_EQ(Train(options, 12, &again).checksums, trained.checksums);
}

INSTANTIATE_TEST_SUITE_P(Codecs, HistoryFree,
                         testing::Values(std::pair("tiles:bits=4", "tiles:bits=6"),
                                         std::pair("tiles:bits=4,adaptive=on",
                                                   "tiles:bits=4,rounding=stochastic"),
                                         std::pair("tiles+rans:bits=5", "topk:ratio=0.5,bits=8"),
                                         std::pair("topk:ratio=0.5,bits=8", "dithered:step=0.7")));

// Both ends of every boundary, after all has arrived.
void ExpectEndsAgree(SimSwarm& swarm) {
  for (std::uint32_t s = 0; s + 1 < swarm.options_.stages; ++s) {
    const BoundaryStats lower = swarm.at(s, 0).runner_->stats().boundaries.back();
    const BoundaryStats upper = swarm.at(s + 1, 0).runner_->stats().boundaries.front();
    EXPECT_EQ(lower.boundary, s);
    EXPECT_EQ(upper.boundary, s);
    EXPECT_EQ(lower.side, storage::BoundarySide::kSender);
    EXPECT_EQ(upper.side, storage::BoundarySide::kReceiver);
    ASSERT_TRUE(lower.mode.has_value());
    EXPECT_EQ(lower.mode, upper.mode);
    EXPECT_EQ(lower.delta_hits, upper.delta_hits);
    EXPECT_EQ(lower.first_visits, upper.first_visits);
    EXPECT_EQ(lower.without_m.average, upper.without_m.average);
    EXPECT_EQ(upper.relative_delta.messages, 0u) << "only the sender knows it";
    EXPECT_GT(upper.backward_error.messages, 0u);
    EXPECT_EQ(lower.backward_error.messages, 0u);
  }
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(TrainingSimTest, WildChangesMakeLinksSendInFullAndCalmOnesBringThemBack) {
  SwarmOptions options;
  options.stages = 3;
  options.micro_batches = 8;
  options.forward = "aqsgd:bits=2,first_visit=direct:bits=8";
  options.backward = "direct:bits=8";
  options.seed = 20240;
  SCOPED_TRACE("seed " + std::to_string(options.seed));
  std::cout << "seed " << options.seed << "\n";
  constexpr std::uint64_t kWildFrom = 9, kCalmFrom = 30, kEnd = 54;
  options.learning_rate = [](std::uint64_t step) {
    if (step >= kCalmFrom) return 0.0;
    if (step >= kWildFrom) return (step / 3) % 2 == 0 ? 40.0 : -40.0;
    return 0.02;
  };
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0));
  std::vector<std::vector<DeltaMode>> modes(2, {DeltaMode::kDelta});
  for (std::uint64_t step = 1; step <= kEnd; ++step) {
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    ExpectEndsAgree(swarm);
    for (std::uint32_t s = 0; s < 2; ++s) {
      const BoundaryStats end = swarm.at(s, 0).runner_->stats().boundaries.back();
      if (*end.mode != modes[s].back()) modes[s].push_back(*end.mode);
      if (step == kWildFrom) {
        EXPECT_EQ(modes[s].size(), 1u);
        EXPECT_LT(end.relative_delta.average, 0.05);
      }
      if (*end.mode == DeltaMode::kFull) {
        EXPECT_EQ(end.without_m.last, 1.0);
        EXPECT_LT(end.forward_error.last, 0.01);
      }
    }
  }
  const std::vector<DeltaMode> there_and_back = {DeltaMode::kDelta, DeltaMode::kWideDelta,
                                                 DeltaMode::kFull, DeltaMode::kWideDelta,
                                                 DeltaMode::kDelta};
  EXPECT_EQ(modes[0], there_and_back);
  EXPECT_EQ(modes[1], there_and_back);
  EXPECT_EQ(swarm.checksums_compared_, kEnd * 2);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().resends, 0u);
}

TEST(TrainingSimTest, AGuardThatIsOffOnlyMeasures) {
  SwarmOptions options;
  options.forward = "aqsgd:bits=4,guard=off";
  options.learning_rate = [](std::uint64_t step) { return (step / 3) % 2 == 0 ? 40.0 : -40.0; };
  SimSwarm swarm(options);
  Train(options, 12, &swarm);
  const BoundaryStats end = swarm.at(0, 0).runner_->stats().boundaries.back();
  EXPECT_EQ(end.mode, DeltaMode::kDelta);
  EXPECT_GT(end.relative_delta.average, compression::DeltaGuard::kWide);
  ExpectEndsAgree(swarm);
}

TEST(TrainingSimTest, AQuotaEvictsOnBothEndsAndTrainingGoesOn) {
  SwarmOptions options;
  options.stages = 2;
  options.forward = "aqsgd:bits=4";
  options.backward = "direct:bits=8";
  options.store_bytes_max = 1000;  // a third of what an epoch needs
  SimSwarm swarm(options);
  const Trained trained = Train(options, 12, &swarm);
  EXPECT_LT(trained.losses.back(), trained.losses.front());
  EXPECT_GT(swarm.at(0, 0).store_->stats().evicted, 0u);
}

TEST(TrainingSimTest, ASlowLinkGetsMoreInFlightThanPlain1f1b) {
  SwarmOptions options;
  options.micro_batches = 24;
  options.random_delays = false;
  options.bytes_per_second = 2 * 5 * 8 * 4 / 0.004;  // a micro-batch takes 4 ms
  options.forward_ms = 1;
  options.backward_ms = 2;
  SimSwarm swarm(options);
  Train(options, 4, &swarm);
  // Measured: 2 x (1 + 2) ms of work and 4 ms of transfer each way, 4 ms apart: 4 at the least.
  EXPECT_GE(swarm.at(0, 0).runner_->stats().bounds.in_flight, 4u);
  EXPECT_LE(swarm.at(0, 0).runner_->stats().bounds.in_flight, 12u);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().bounds.in_flight, 1u);
}

TEST(TrainingSimTest, TheAccountOfAStagesTimeHasNoGapsAndNamesWhatIsSlow) {
  SwarmOptions options;
  options.stages = 3;
  options.bytes_per_second = 20'000;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0));
  std::vector<pipeline::ActivityTimes> before;
  for (const auto& peer : swarm.peers()) before.push_back(peer->runner_->stats().time);
  const TimePoint start = swarm.world_.Now();
  ASSERT_TRUE(swarm.TrainTo(4));
  const double elapsed_ms =
      std::chrono::duration<double, std::milli>(swarm.world_.Now() - start).count();
  for (const auto& peer : swarm.peers()) {
    const pipeline::ActivityTimes after = peer->runner_->stats().time;
    const pipeline::ActivityTimes& first = before[peer->stage_];
    double used_ms = 0;
    for (std::size_t i = 0; i < pipeline::kActivities; ++i) used_ms += after.ms[i] - first.ms[i];
    EXPECT_NEAR(used_ms, elapsed_ms, 1e-6 * elapsed_ms) << peer->stage_;
    const double input =
        after[pipeline::Activity::kWaitInput] - first[pipeline::Activity::kWaitInput];
    const double gradient =
        after[pipeline::Activity::kWaitGradient] - first[pipeline::Activity::kWaitGradient];
    // The first stage waits for no activation, the last for no gradient; the lines are slow.
    if (peer->stage_ == 0) {
      EXPECT_EQ(input, 0);
    }
    if (peer->stage_ == 2) {
      EXPECT_EQ(gradient, 0);
    }
    EXPECT_GT(input + gradient, 0.25 * elapsed_ms) << peer->stage_;
  }
}

// Who owns more of the reduction changes on the way, and with it who rounds what.
TEST(TrainingSimTest, SharesFollowTheLinesAndReplicasStayEqual) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 3;
  const auto train = [&options](const char* method, bool lines) {
    options.replica = method;
    options.lines = nullptr;
    if (lines) {
      options.lines = [](std::uint64_t step) -> std::vector<replica::LineRate> {
        constexpr std::uint64_t kMbit = 1'000'000;
        if (step == 0) return {{20 * kMbit, 0}, {kMbit / 8, 0}, {0, 0}};
        if (step == 5) return {{kMbit / 8, 0}, {10 * kMbit, 2 * kMbit}, {30 * kMbit, 0}};
        return {};
      };
    }
    SimSwarm swarm(options);
    const auto checksums = Train(options, 12, &swarm).checksums;
    for (std::uint32_t p = 1; p < options.pipelines; ++p) {
      EXPECT_EQ(swarm.at(1, p).model_->WeightChecksum(), swarm.at(1, 0).model_->WeightChecksum());
    }
    const replica::KindBytes own = swarm.at(0, 1).runner_->stats().replica;
    return std::pair(checksums, own.raw_sent);
  };
  const auto plain = train("average", false), uneven = train("average", true);
  EXPECT_EQ(plain.first, uneven.first) << "exact sums are the same whoever makes them";
  EXPECT_NE(plain.second, uneven.second);
  for (const char* method : {"average:codec=direct:bits=4/bucket=64", "qadam:bits=4,start=3",
                             "average:codec=direct:bits=8/bucket=64,local_steps=2"}) {
    SCOPED_TRACE(method);
    options.sync_every = std::string(method).ends_with("=2") ? 2 : 1;
    options.adamw = true;
    EXPECT_EQ(train(method, true).first, train(method, true).first);
  }
}

// Exact sums are the same however the gradient is cut, and whenever its pieces travel.
TEST(TrainingSimTest, BucketsDoNotChangeExactSums) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 3;
  options.adamw = true;
  SimSwarm cut(options);
  options.bucket_values_min = 1 << 20;
  SimSwarm whole(options);
  EXPECT_EQ(Train(options, 8, &cut).checksums, Train(options, 8, &whole).checksums);
}

TEST(TrainingSimTest, APipelineThatDoesNotCountLeavesNoTrace) {
  SwarmOptions options;
  options.pipelines = 2;
  options.forward = "aqsgd:bits=4";
  SimSwarm swarm(options);
  swarm.counted_ = {1};
  Train(options, 6, &swarm);
  EXPECT_EQ(swarm.at(0, 0).model_->WeightChecksum(), swarm.at(0, 1).model_->WeightChecksum());
  EXPECT_EQ(swarm.at(0, 0).store_->stats().records, 0u);
  EXPECT_GT(swarm.at(0, 1).store_->stats().records, 0u);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

}  // namespace
}  // namespace shoal::pipeline
