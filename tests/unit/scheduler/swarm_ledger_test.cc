// The ledger of runs with faults: whatever happens, every sample is counted exactly once.

#include <gtest/gtest.h>

#include <random>

#include "scheduler/history/run_audit.h"
#include "scheduler/history/run_timeline.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

std::vector<TimedEvent> Events(const SimSwarm& swarm) {
  std::vector<TimedEvent> events;
  for (const std::string& event : swarm.persisted()) {
    auto timed = DecodeTimedEvent(event);
    EXPECT_TRUE(timed.ok()) << event;
    if (timed.ok()) events.push_back(*std::move(timed));
  }
  return events;
}

class SwarmLedger : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SwarmLedger, IsRightAfterFaultsOfAllKinds) {
  const std::uint64_t seed = GetParam();
  RunConfig config = SimConfig(3, 2);
  config.steps = 60;
  config.checkpoint_every = 10;
  SimSwarm swarm(config, seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t kPeers = 8;
  for (std::size_t i = 0; i < kPeers; ++i) swarm.AddPeer();
  std::size_t ends = 0;
  for (int fault = 0; fault < 6; ++fault) {
    swarm.RunFor(std::chrono::milliseconds(500 + random() % 8000));
    const std::size_t index = random() % kPeers;
    switch (random() % 3) {
      case 0: swarm.RestartScheduler(true); break;
      case 1:
        swarm.Kill(index);
        swarm.RunFor(std::chrono::seconds(3));
        swarm.Connect(index);
        break;
      default:
        swarm.CutOff(index);
        swarm.RunFor(std::chrono::seconds(1));
        swarm.Connect(index);
    }
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  const auto events = Events(swarm);
  const auto order = FindSampleOrder(events);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->stages, 3u);
  EXPECT_EQ(order->seed, config.seed);
  const auto ledger = ReplayLedger(events, order->stages);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  EXPECT_EQ(ledger->steps(), config.steps);
  const auto audit = AuditLedger(*ledger, *MakeSampleDeal(*order), order->stages);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  std::uint64_t counted = 0;
  for (const MemberWork& member : audit->members) counted += member.counted;
  EXPECT_EQ(counted, config.steps * config.micro_batches * config.stages);

  std::uint64_t lost = 0, thrown_away = 0;
  const RunTimeline timeline = MakeTimeline(events, order->stages);
  for (const TimelineEntry& entry : timeline.entries()) {
    if (entry.kind == TimelineEntry::Kind::kRepair) lost += entry.repair.steps_lost;
    ends += entry.kind == TimelineEntry::Kind::kEnded ? 1 : 0;
  }
  for (const VoidSteps& gone : ledger->thrown_away) thrown_away += gone.steps.size();
  EXPECT_EQ(lost, thrown_away);
  EXPECT_LE(ends, ledger->plans.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmLedger, ::testing::Range(std::uint64_t{1}, std::uint64_t{41}));

// The run file leaves the interval open: the more often a pipeline alone loses steps, the closer
// checkpoints come, within what the log says after a restart of the scheduler, too.
TEST(SwarmCheckpointInterval, CheckpointsComeCloserWhereStepsAreLost) {
  RunConfig config = SimConfig(2, 1);
  config.steps = 100'000;
  config.checkpoint_every = 0;
  SimSwarm swarm(config, 5);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 10; }));
  swarm.RunFor(std::chrono::minutes(10));
  const std::uint64_t quiet = swarm.View().checkpoint_every;
  EXPECT_GT(quiet, 10u);
  EXPECT_GE(swarm.View().checkpoint_step + 3 * quiet, swarm.View().step);
  for (int loss = 0; loss < 20; ++loss) {
    const std::size_t index = PeerAt(&swarm, 3, 0, 1);
    ASSERT_LT(index, 3u);
    const std::uint64_t before = swarm.View().step;
    swarm.Kill(index);
    swarm.RunFor(std::chrono::seconds(5));
    swarm.Connect(index);
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step > before + 20; }));
  }
  swarm.RunFor(std::chrono::minutes(2));
  const std::uint64_t lossy = swarm.View().checkpoint_every;
  EXPECT_LT(lossy, quiet * 2 / 3);
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining)) << swarm.View().reason;
  swarm.RunFor(std::chrono::minutes(3));
  EXPECT_NEAR(static_cast<double>(swarm.View().checkpoint_every), static_cast<double>(lossy),
              0.5 * static_cast<double>(lossy));
}

}  // namespace
}  // namespace shoal::scheduler
