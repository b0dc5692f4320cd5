// Peers of one swarm with different SIMD levels, some with their values on a device: replicas stay
// equal to the bit after every replica method, and both ends of every boundary hold the same m.

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

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

void TrainAndCompare(const SwarmOptions& options, std::uint64_t steps) {
  if (Levels().size() < 2) GTEST_SKIP() << "this machine has one SIMD level";
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    for (std::uint32_t p = 0; p < options.pipelines; ++p) {
      EXPECT_EQ(swarm.at(s, p).model_->WeightChecksum(), swarm.at(s, 0).model_->WeightChecksum())
          << "stage " << s << " pipeline " << p;
      if (s == 0) continue;
      EXPECT_EQ(ImagesOf(swarm.at(s - 1, p), Place(s - 1, storage::BoundarySide::kSender)),
                ImagesOf(swarm.at(s, p), Place(s - 1, storage::BoundarySide::kReceiver)));
    }
  }
  EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
  UseLevels(0);
}

class MixedMethods : public testing::TestWithParam<const char*> {};

TEST_P(MixedMethods, KeepReplicasEqualToTheBit) {
  SwarmOptions options = Mixed();
  options.replica = GetParam();
  TrainAndCompare(options, 24);
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
class MixedBoundaries : public testing::TestWithParam<Codecs> {};

TEST_P(MixedBoundaries, HoldTheSameM) {
  SwarmOptions options = Mixed();
  options.forward = GetParam().forward;
  options.backward = GetParam().backward;
  TrainAndCompare(options, 12);
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
