#include "scheduler/swarm/newcomers.h"

#include <gtest/gtest.h>

#include <set>

#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

// A stage's holder speaks last: both of its shadows are judged by what it says.
TEST(Newcomers, OneChecksumJudgesAllShadowsOfItsStage) {
  SwarmParts parts(1, 3);
  parts.JoinAll(3);
  parts.plan.Adopt({{SimPeerId(1)}, {SimPeerId(2)}, {SimPeerId(3)}}, {SimPeerId(2), SimPeerId(3)});
  for (const std::uint32_t pipeline : {1u, 2u}) {
    EXPECT_TRUE(parts.newcomers.OnCaughtUp(parts.At(pipeline, 0), 5));
    EXPECT_FALSE(parts.newcomers.OnCaughtUp(parts.At(pipeline, 0), 5)) << "said already";
    parts.newcomers.OnChecksum(parts.At(pipeline, 0), 4, 77);  // it had not all of it then
    parts.newcomers.OnChecksum(parts.At(pipeline, 0), 5, 90 + pipeline);
  }
  parts.newcomers.OnChecksum(parts.At(0, 0), 4, 77);
  EXPECT_FALSE(parts.newcomers.Judge());
  parts.newcomers.OnChecksum(parts.At(0, 0), 5, 91);
  std::set<PeerId> in_step, others;
  while (const auto verdict = parts.newcomers.Judge()) {
    (verdict->in_step ? in_step : others).insert(verdict->shadow->peer);
  }
  EXPECT_EQ(in_step, (std::set<PeerId>{SimPeerId(2)}));
  EXPECT_EQ(others, (std::set<PeerId>{SimPeerId(3)}));
}

}  // namespace
}  // namespace shoal::scheduler
