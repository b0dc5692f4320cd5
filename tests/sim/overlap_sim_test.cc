// Swarms whose members exchange gradients before a step's backward has ended.

#include <gtest/gtest.h>

#include <map>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kSteps = 24;
constexpr char kExact[] = "qsdp:weights=32,gradients=32,bucket=16,raw_below=100";

SwarmOptions Options(const char* replica) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 3;
  options.adamw = true;
  options.learning_rate = [](std::uint64_t) { return 1e-2; };
  options.replica = replica;
  return options;
}

class Overlap : public testing::TestWithParam<const char*> {};

TEST_P(Overlap, GroupsAreAtWorkWhileMembersGoOnWithTheirBackward) {
  const SwarmOptions options = Options(GetParam());
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  std::map<PeerId, std::uint64_t> early;  // bytes, behind what methods begin with
  const std::uint64_t own = options.micro_batches / options.pipelines;
  swarm.network_.tap = [&](const PeerId& from, const PeerId&, net::Frame* frame) {
    for (const auto& peer : swarm.peers()) {
      if (peer->id_ != from || frame->kind != net::FrameKind::kGroup) continue;
      const RunnerStats stats = peer->runner_->stats();
      if (stats.step < 4) continue;
      if (stats.micro_batches_done < (stats.step + 1) * own) early[from] += frame->payload.size();
    }
    return 1;
  };
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  for (const auto& peer : swarm.peers()) {
    EXPECT_GT(early[peer->id_], 0u) << "stage " << peer->stage_ << ", pipeline " << peer->pipeline_;
    const ActivityTimes time = peer->runner_->stats().time;
    EXPECT_GT(time[Activity::kExchange], 0);
    const bool sharded = std::string_view(GetParam()).starts_with("qsdp");
    EXPECT_EQ(time[Activity::kOptimizer] == 0, sharded) << "owners' weights are awaited in Apply";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, Overlap,
    testing::Values("average", "qadam:bits=4,bucket=64,start=3", "onebit:bucket=64,start=3",
                    "qadam:bits=8,bucket=64,start=3,refresh=on", kExact,
                    "qsdp:weights=8,gradients=8,bucket=16,raw_below=100",
                    "qsdp:weights=8,gradients=8,bucket=16,raw_below=1,lan=1-2"));

// Gradients are clipped by the norm of their mean, so without quantisation it is the same training.
TEST(OverlapSimTest, ExactShardsTrainAsAverageDoes) {
  std::vector<double> losses[2];
  for (const bool sharded : {false, true}) {
    SwarmOptions options = Options(sharded ? kExact : "average");
    options.clip_norm = 0.05;  // less than any norm here
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(30)) << Why(swarm);
    losses[sharded ? 1 : 0] = swarm.losses_;
  }
  for (std::size_t i = 0; i < losses[0].size(); ++i) {
    EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4 * losses[0][i]) << "step " << i;
  }
}

}  // namespace
}  // namespace shoal::pipeline
