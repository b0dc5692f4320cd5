// The real scheduler and real peers, and everything that can happen to them.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "dataset/sampler.h"
#include "scheduler/history/run_audit.h"
#include "tests/support/whole_swarm.h"

namespace shoal::test_support {
namespace {

const WholeInput& Input() {
  static const WholeInput input(4);
  return input;
}

bool Finishes(WholeSwarm* swarm, Duration limit = std::chrono::minutes(30)) {
  return swarm->RunUntil(
      [&] {
        return swarm->scheduler_lives() && swarm->View().state == scheduler::RunState::kFinished;
      },
      limit);
}

// Losses of a run to which nothing happens.
const std::vector<double>& Undisturbed() {
  static const std::vector<double> losses = [] {
    WholeSwarm swarm({}, Input());
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    EXPECT_TRUE(Finishes(&swarm)) << swarm.View().reason;
    return swarm.View().losses;
  }();
  return losses;
}

TEST(WholeSim, TrainsToTheEnd) {
  const std::vector<double>& losses = Undisturbed();
  ASSERT_EQ(losses.size(), 60u);
  EXPECT_LT(losses.back(), losses.front() - 1);
}

}  // namespace
}  // namespace shoal::test_support
