// Peers of one swarm with different SIMD levels, some with their values on a device: replicas stay
// equal to the bit after every replica method, and both ends of every boundary hold the same m.

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::ImagesOf;
using test_support::Place;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

std::vector<std::int64_t> Levels() {
  std::vector<std::int64_t> levels;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    levels.push_back(left & -left);
  }
  return levels;
}

void UseLevels(std::int64_t levels) {
  hwy::SetSupportedTargetsForTest(levels);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Neighbours and members of a stage group differ: in level, and in whether they have a device.
SwarmOptions Mixed() {
  SwarmOptions options;
  options.stages = 3;
  options.pipelines = 3;
  options.row_tokens = 6;
  options.adamw = true;
  options.before_task = [levels = Levels()](std::uint32_t stage, std::uint32_t pipeline) {
    UseLevels(levels[(stage + 2 * pipeline) % levels.size()]);
  };
  options.on_device = [](std::uint32_t stage, std::uint32_t pipeline) {
    return (stage + pipeline) % 2 == 0;
  };
  return options;
}

// What differs between peers that have to be equal; empty if nothing does.
std::string Differences(SimSwarm& swarm, const SwarmOptions& options) {
  std::string text;
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    for (std::uint32_t p = 0; p < options.pipelines; ++p) {
      const std::string at = " of stage " + std::to_string(s) + " pipeline " + std::to_string(p);
      const auto weights = swarm.at(s, p).model_->WeightChecksum();
      if (weights != swarm.at(s, 0).model_->WeightChecksum()) text += "weights" + at + "\n";
      if (s == 0) continue;
      const auto sent = ImagesOf(swarm.at(s - 1, p), Place(s - 1, storage::BoundarySide::kSender));
      const auto got = ImagesOf(swarm.at(s, p), Place(s - 1, storage::BoundarySide::kReceiver));
      if (sent != got) text += "m images" + at + "\n";
    }
  }
  return text;
}

class MixedSwarm : public testing::Test {
 protected:
  void TearDown() override { UseLevels(0); }

  // A machine with one level still mixes peers with and without a device.
  void Train(const SwarmOptions& options, std::uint64_t steps) {
    swarm_.emplace(options);
    ASSERT_TRUE(swarm_->Open(0)) << Why(*swarm_);
    ASSERT_TRUE(swarm_->TrainTo(steps)) << Why(*swarm_);
  }

  std::optional<SimSwarm> swarm_;
};

class MixedMethods : public MixedSwarm, public testing::WithParamInterface<const char*> {};

TEST_P(MixedMethods, KeepReplicasEqualToTheBit) {
  SwarmOptions options = Mixed();
  options.replica = GetParam();
  ASSERT_NO_FATAL_FAILURE(Train(options, 24));
  EXPECT_EQ(Differences(*swarm_, options), "");
  EXPECT_TRUE(swarm_->checksum_mismatches_.empty());
  EXPECT_LT(swarm_->losses_.back(), swarm_->losses_.front());
}

INSTANTIATE_TEST_SUITE_P(Methods, MixedMethods,
                         testing::Values("average", "average:dtype=bf16",
                                         "average:codec=dithered:step=0.5",
                                         "average:codec=direct:bits=4/bucket=64",
                                         "powersgd:rank=1,start=10", "cocktail:random=0.5,top=0.5",
                                         "qadam:bits=4,bucket=64,start=10",
                                         "onebit:bucket=64,start=10", "marsit:every=10,start=10",
                                         "qsdp:weights=8,gradients=8,bucket=16,raw_below=100"));

struct Codecs {
  const char *forward, *backward;
};
class MixedBoundaries : public MixedSwarm, public testing::WithParamInterface<Codecs> {};

TEST_P(MixedBoundaries, HoldTheSameM) {
  SwarmOptions options = Mixed();
  options.forward = GetParam().forward;
  options.backward = GetParam().backward;
  ASSERT_NO_FATAL_FAILURE(Train(options, 12));
  EXPECT_FALSE(ImagesOf(swarm_->at(1, 0), Place(0, storage::BoundarySide::kReceiver)).empty());
  EXPECT_EQ(Differences(*swarm_, options), "");
  EXPECT_TRUE(swarm_->checksum_mismatches_.empty());
  EXPECT_LT(swarm_->losses_.back(), swarm_->losses_.front());
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, MixedBoundaries,
    testing::Values(Codecs{"aqsgd:bits=3", "direct:bits=6"},
                    Codecs{"aqsgd:bits=4,m=8", "lowrank:rank=1,epilogue=false"},
                    Codecs{"aqsgd:delta=dithered:step=0.6/klt=8/channels=on,"
                           "first_visit=dithered:step=0.1/klt=8/channels=on",
                           "dithered:step=0.4,klt=8,channels=on"},
                    Codecs{"aqsgd:delta=lowrank:rank=2,first_visit=raw:dtype=fp16",
                           "tiles:bits=8"}));

}  // namespace
}  // namespace shoal::pipeline
