// Spot checks by real runners: what honest members compute again is what was sent, whatever the
// codec, and who sends something else stands out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::TinyStage;
using test_support::Why;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kSteps = 30;
// As a run's default, with outlier channels; a small model has fewer directions.
constexpr char kDefaultCodec[] =
    "aqsgd:delta=dithered:step=0.55/klt=4/channels=on,"
    "first_visit=dithered:step=0.1/klt=4/channels=on";

// Each step another place of the swarm is checked, by all that can.
SwarmOptions Checked(const std::string& forward, std::uint32_t stages = 3,
                     std::uint32_t pipelines = 3) {
  SwarmOptions options = test_support::OptionsOf(forward, "direct:bits=8", stages, pipelines);
  options.row_tokens = 6;
  options.spot_check = [stages, pipelines](std::uint64_t step) {
    SwarmOptions::SpotCheck check;
    check.stage = static_cast<std::uint32_t>(step % stages);
    check.pipeline = static_cast<std::uint32_t>(step / stages % pipelines);
    check.place = static_cast<std::uint32_t>(step / 2 % 2);
    for (std::uint32_t p = 0; p < pipelines; ++p) {
      if (p != check.pipeline) check.checkers.push_back(p);
    }
    return std::optional(check);
  };
  return options;
}

// As the scheduler compares: what a checker got is what the checked member says.
void ExpectSameEvidence(SimSwarm& swarm, const SimSwarm::SpotChecked& one) {
  const auto& [check, by, result] = one;
  const StepReady& ready = swarm.reports_.at({result.step, check.stage, check.pipeline});
  const bool first = check.stage == 0, last = check.stage + 1 == swarm.options_.stages;
  ASSERT_EQ(ready.input_digests.empty(), first);
  ASSERT_EQ(ready.output_digests.empty(), last);
  if (!first) {
    EXPECT_EQ(result.input_digest, ready.input_digests[check.place]);
    EXPECT_NE(result.input_digest, 0u);
  }
  if (!last) {
    EXPECT_EQ(result.output_digest, ready.output_digests[check.place]);
    EXPECT_NE(result.output_digest, 0u);
  }
}

class SpotCheckSimTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SpotCheckSimTest, HonestMembersAgree) {
  SimSwarm swarm(Checked(GetParam()));
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  std::size_t done = 0;
  for (const SimSwarm::SpotChecked& one : swarm.spot_checked_) {
    if (!one.result.status.ok()) {
      EXPECT_THAT(one.result.status.message(), HasSubstr("the step ended before"));
      continue;
    }
    ++done;
    ExpectSameEvidence(swarm, one);
    if (one.check.stage + 1 < swarm.options_.stages) {
      EXPECT_EQ(one.result.difference, 0) << "the same machine gives the same bits";
      EXPECT_LT(one.result.coding_error, 1);
    } else {
      const StepReady& ready =
          swarm.reports_.at({one.result.step, one.check.stage, one.check.pipeline});
      EXPECT_DOUBLE_EQ(one.result.loss.sum, ready.losses.at(one.check.place));
    }
  }
  EXPECT_EQ(swarm.spot_checked_.size(), 2 * kSteps) << "each checker says something";
  EXPECT_GT(done, kSteps) << "most are in time";
}

INSTANTIATE_TEST_SUITE_P(Codecs, SpotCheckSimTest,
                         ::testing::Values("raw:dtype=fp32", "raw:dtype=bf16", "direct:bits=8",
                                           "direct:bits=2", "aqsgd:bits=2", "aqsgd:bits=4,m=4",
                                           "tiles:bits=4", kDefaultCodec));

// As the scheduler allows it.
double Allowed(const SpotResult& result) { return 0.05 + 0.5 * result.coding_error; }

// Whose output is a little different each time, as that of another kind of machine.
void AddNoise(SimSwarm& swarm, double share) {
  for (const auto& peer : swarm.peers()) {
    auto random = std::make_shared<std::mt19937>(peer->stage_ * 7 + peer->pipeline_);
    peer->tiny().SetOutputs([random, share](const auto&, std::span<float> output, auto*) {
      std::normal_distribution<float> noise(0, static_cast<float>(share));
      for (float& value : output) value *= 1 + noise(*random);
    });
  }
}

TEST(SpotCheckSim, AThousandChecksOfHonestMachinesOfManyKindsGiveNoFalseAlarm) {
  std::size_t done = 0;
  double most = 0;
  for (const char* codec : {"raw:dtype=bf16", "direct:bits=8", "direct:bits=4", "aqsgd:bits=2",
                            "aqsgd:bits=4,m=8", kDefaultCodec}) {
    SwarmOptions options = Checked(codec);
    options.on_device = [](std::uint32_t stage, std::uint32_t pipeline) {
      return (stage + pipeline) % 2 == 0;
    };
    SimSwarm swarm(options);
    AddNoise(swarm, 0.01);
    ASSERT_TRUE(swarm.Open(0)) << codec << ": " << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(150)) << codec << ": " << Why(swarm);
    for (const SimSwarm::SpotChecked& one : swarm.spot_checked_) {
      if (!one.result.status.ok() || one.check.stage == 2) continue;
      ++done;
      most = std::max(most, one.result.difference / Allowed(one.result));
      EXPECT_LT(one.result.difference, Allowed(one.result)) << codec << one.result.coding_error;
    }
  }
  EXPECT_GT(done, 1000u);
  EXPECT_GT(most, 0) << "the noise is seen";
}

struct Cheat {
  const char* name;
  TinyStage::Outputs outputs;
};

// Each in every micro-batch of one member.
const Cheat kCheats[] = {
    {"scaled",
     [](const auto&, std::span<float> output, auto*) {
       for (float& value : output) value *= 1.2F;
     }},
    {"skipped",
     [](const model::MicroBatch& micro_batch, std::span<float> output, auto*) {
       std::copy(micro_batch.input.begin(), micro_batch.input.end(), output.begin());
     }},
    {"drawn",
     [random = std::make_shared<std::mt19937>(5)](const auto&, std::span<float> output, auto*) {
       std::normal_distribution<float> normal;
       for (float& value : output) value = normal(*random);
     }},
};

TEST(SpotCheckSim, WhoScalesSkipsOrMakesUpItsOutputStandsOut) {
  for (const char* codec :
       {"raw:dtype=bf16", "direct:bits=8", "aqsgd:bits=4", "aqsgd:bits=2", kDefaultCodec}) {
    for (const Cheat& cheat : kCheats) {
      SimSwarm swarm(Checked(codec));
      swarm.at(1, 1).tiny().SetOutputs(cheat.outputs);
      ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
      ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
      std::size_t caught = 0;
      for (const SimSwarm::SpotChecked& one : swarm.spot_checked_) {
        if (!one.result.status.ok() || one.check.stage == 2) continue;
        const bool cheats = one.check.stage == 1 && one.check.pipeline == 1;
        ExpectSameEvidence(swarm, one);
        EXPECT_EQ(one.result.difference > Allowed(one.result), cheats)
            << codec << ' ' << cheat.name << ' ' << one.result.difference << " of "
            << Allowed(one.result);
        caught += cheats ? 1 : 0;
      }
      EXPECT_GT(caught, 3u) << codec << ' ' << cheat.name;
    }
  }
}

TEST(SpotCheckSim, TheLossOfTheLastStageIsComputedAgain) {
  SimSwarm swarm(Checked("aqsgd:bits=4"));
  swarm.at(2, 0).tiny().SetOutputs(
      [](const auto&, std::span<float>, auto* loss) { loss->sum *= 1.3; });
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  std::size_t checks = 0;
  for (const auto& [check, by, result] : swarm.spot_checked_) {
    if (!result.status.ok() || check.stage != 2) continue;
    const double told =
        swarm.reports_.at({result.step, check.stage, check.pipeline}).losses.at(check.place);
    EXPECT_NEAR(told / result.loss.sum, check.pipeline == 0 ? 1.3 : 1, 1e-6);
    ++checks;
  }
  EXPECT_GT(checks, 10u);
}

// Records that one end loses are sent again, in a second frame.
TEST(SpotCheckSim, WhatIsSentAgainIsShownAndComparedToo) {
  SimSwarm swarm(Checked("aqsgd:bits=4"));
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  for (std::uint64_t step = 3; step < kSteps; step += 3) {
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    for (std::uint32_t p = 0; p < 3; ++p) {
      for (std::uint32_t boundary = 0; boundary < 2; ++boundary) {
        const auto place = test_support::Place(boundary, storage::BoundarySide::kReceiver);
        auto& store = *swarm.at(boundary + 1, p).store_;
        for (std::uint64_t sample = step % 2; sample < 36; sample += 2) {
          ASSERT_TRUE(store.Drop(place, std::vector{SegmentId{sample}}, UINT64_MAX).ok());
        }
      }
    }
  }
  std::uint64_t resends = 0;
  for (const auto& peer : swarm.peers()) resends += peer->runner_->stats().resends;
  EXPECT_GT(resends, 20u);
  for (const SimSwarm::SpotChecked& one : swarm.spot_checked_) {
    if (!one.result.status.ok() || one.check.stage == 2) continue;
    ExpectSameEvidence(swarm, one);
    EXPECT_LT(one.result.difference, Allowed(one.result));
  }
}

TEST(SpotCheckSim, AWitnessThatShowsSomethingElseIsSeen) {
  SimSwarm swarm(Checked("aqsgd:bits=4"));
  swarm.network_.tap = [](const PeerId& from, const PeerId& to, net::Frame* frame) {
    // From another pipeline than to: to a checker.
    if (from.key[1] != to.key[1] && frame->kind == net::FrameKind::kActivation) {
      frame->payload.data()[frame->payload.size() - 1] ^= std::byte{1};
    }
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  ASSERT_FALSE(swarm.spot_checked_.empty());
  for (const auto& [check, by, result] : swarm.spot_checked_) {
    if (!result.status.ok()) continue;
    const StepReady& ready = swarm.reports_.at({result.step, check.stage, check.pipeline});
    if (check.stage > 0) {
      EXPECT_NE(result.input_digest, ready.input_digests[check.place]);
    }
    if (check.stage < 2) {
      EXPECT_NE(result.output_digest, ready.output_digests[check.place]);
    }
  }
}

// Its links break, its witnesses say nothing: the run goes on.
TEST(SpotCheckSim, ACheckThatCannotBeDoneStopsNothing) {
  SimSwarm swarm(Checked("aqsgd:bits=4"));
  swarm.network_.tap = [](const PeerId& from, const PeerId& to, net::Frame* frame) {
    return from.key[1] != to.key[1] && frame->kind == net::FrameKind::kSpotCheck ? 0 : 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  EXPECT_GE(swarm.spot_checked_.size() + 2, 2 * kSteps) << "all but of the last step";
  for (const SimSwarm::SpotChecked& one : swarm.spot_checked_) {
    // A witness that has applied the step first lets its link go.
    EXPECT_THAT(one.result.status.message(),
                AnyOf(HasSubstr("before its neighbours had shown it"), HasSubstr("a witness")));
  }
}

}  // namespace
}  // namespace shoal::pipeline
