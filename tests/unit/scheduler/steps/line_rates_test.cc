#include "scheduler/steps/line_rates.h"

#include <gtest/gtest.h>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kMbit = 1'000'000;

std::vector<LineRate> Lines(const std::vector<std::uint64_t>& upload_mbit) {
  std::vector<LineRate> lines;
  for (const std::uint64_t rate : upload_mbit) lines.push_back({rate * kMbit, 0});
  return lines;
}

TEST(LineRatesTest, SaysNothingOfLinesThatAreAlikeInEachGroup) {
  LineRates alike(3, 2);
  EXPECT_TRUE(alike.Tell(0, Lines({0, 0, 0, 0, 0, 0})).empty());
  // Stages may differ from each other: they do not share a reduction.
  EXPECT_TRUE(alike.Tell(1, Lines({100, 20, 110, 22, 90, 20})).empty());
  EXPECT_EQ(alike.Tell(2, Lines({100, 20, 110, 22, 70, 20})).size(), 6u);
}

TEST(LineRatesTest, UnknownIsNotLikeKnown) {
  LineRates rates(2, 1);
  EXPECT_EQ(rates.Tell(0, Lines({100, 0})), Lines({100, 0}));
}

TEST(LineRatesTest, DownloadsCount) {
  LineRates rates(2, 1);
  const std::vector<LineRate> lines = {{kMbit, 20 * kMbit}, {kMbit, 50 * kMbit}};
  EXPECT_EQ(rates.Tell(0, lines), lines);
}

TEST(LineRatesTest, TellsChangesOnlyAndNotOften) {
  LineRates rates(2, 1);
  EXPECT_EQ(rates.Tell(5, Lines({100, 50})), Lines({100, 50}));
  EXPECT_TRUE(rates.Tell(6, Lines({100, 20})).empty()) << "just told";
  EXPECT_TRUE(rates.Tell(100, Lines({110, 45})).empty()) << "noise";
  EXPECT_EQ(rates.Tell(101, Lines({100, 20})), Lines({100, 20}));
  EXPECT_TRUE(rates.Tell(101 + kLineRateSteps - 1, Lines({100, 100})).empty());
  EXPECT_EQ(rates.Tell(101 + kLineRateSteps, Lines({100, 100})), Lines({100, 100}))
      << "alike again is news, too";
}

TEST(LineRatesTest, ANewGenerationHearsItAgain) {
  LineRates rates(2, 1);
  EXPECT_FALSE(rates.Tell(5, Lines({100, 50})).empty());
  rates.Reset(2);
  EXPECT_EQ(rates.Tell(5, Lines({100, 50})), Lines({100, 50}));
}

// By what the peers' heartbeats say, in the order of places, and again when a peer is lost.
TEST(LineRatesTest, StepPlansCarryWhatHeartbeatsSaid) {
  for (std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RunConfig config = SimConfig(2, 2);
    config.steps = 1000;
    SimSwarm swarm(config, seed);
    for (std::uint64_t i = 0; i < 5; ++i) swarm.Peer(swarm.AddPeer()).upload_bps = 10 * (i + 1);
    const auto check = [&](std::uint64_t generation) {
      const auto placed = [](const SimPeer& peer) { return peer.alive && peer.stage >= 0; };
      ASSERT_TRUE(swarm.RunUntil([&] {
        std::size_t heard = 0;
        for (std::size_t i = 0; i < 5; ++i) {
          const SimPeer& peer = swarm.Peer(i);
          heard += placed(peer) && peer.generation == generation && !peer.with_lines.empty();
        }
        return heard == 4;
      }));
      swarm.RunFor(std::chrono::seconds(3));
      for (std::size_t i = 0; i < 5; ++i) {
        const SimPeer& peer = swarm.Peer(i);
        if (!placed(peer)) continue;
        ASSERT_EQ(peer.with_lines.size(), 1u) << "nothing has changed since";
        ASSERT_EQ(peer.with_lines[0].lines_size(), 4);
        const auto own = static_cast<int>(2 * peer.pipeline + peer.stage);
        EXPECT_EQ(peer.with_lines[0].lines(own).upload_bps(), peer.upload_bps);
      }
    };
    check(1);
    for (std::size_t i = 0; i < 5; ++i) {
      if (swarm.Peer(i).stage != 1 || swarm.Peer(i).pipeline != 1) continue;
      swarm.Kill(i);
      break;
    }
    check(3);  // 2 goes on without the lost pipeline
  }
}

}  // namespace
}  // namespace shoal::scheduler
