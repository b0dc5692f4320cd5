// Swarms in virtual time whose replica method keeps state of its own. One peer dies where that
// could tear replicas apart: in an exchange, in the midst of the others' Apply, in a step that is
// saved. The run goes on from the checkpoint before, as one that was closed there.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kSaved = 3;  // steps between checkpoints
constexpr std::uint64_t kEnd = 9;

// The release build tries every death; sanitized programs, ten times slower, one in three.
#if defined(SHOAL_SANITIZED)
constexpr unsigned kOneIn = 3;
#else
constexpr unsigned kOneIn = 1;
#endif

struct MethodCase {
  const char* method;
  std::uint32_t sync_every = 1;
};

using Saved = std::vector<SimSwarm::StageState>;

class MethodDeath : public testing::TestWithParam<MethodCase> {
 protected:
  static SwarmOptions Options(unsigned seed) {
    SwarmOptions options;
    options.stages = 2;
    options.pipelines = 3;
    options.adamw = true;
    options.learning_rate = [](std::uint64_t) { return 2e-3; };
    options.replica = GetParam().method;
    options.units = options.replica.find("shard_parameters=true") != std::string::npos;
    options.sync_every = GetParam().sync_every;
    options.checkpoint_every = kSaved;
    options.seed = seed;
    return options;
  }

  // As a checkpoint has it.
  static Saved Save(const SimSwarm& swarm) {
    return {swarm.SaveStage(0, 0), swarm.SaveStage(1, 0)};
  }
  static void ExpectEqualReplicas(const SimSwarm& swarm) {
    const Saved first = Save(swarm);
    for (std::uint32_t s = 0; s < 2; ++s) {
      for (std::uint32_t p = 1; p < 3; ++p) {
        EXPECT_EQ(swarm.SaveStage(s, p)[0], first[s][0]) << "stage " << s << " pipeline " << p;
      }
    }
  }
  // The next generation, from `step` to the end.
  static void GoOn(SimSwarm* swarm, std::uint64_t step, const Saved& saved) {
    swarm->Close();
    swarm->Run(std::chrono::seconds(1));
    swarm->network_.tap = nullptr;
    for (std::uint32_t s = 0; s < 2; ++s) swarm->LoadStage(s, saved[s]);
    ASSERT_TRUE(swarm->Open(step)) << Why(*swarm);
    ASSERT_TRUE(swarm->TrainTo(kEnd)) << Why(*swarm);
    ExpectEqualReplicas(*swarm);
  }
  // What a run comes to whose first generation ends after `step`, and what it saved there.
  static Saved ClosedAfter(std::uint64_t step, Saved* saved) {
    SimSwarm swarm(Options(1));
    EXPECT_TRUE(swarm.Open(0) && swarm.TrainTo(step)) << Why(swarm);
    ExpectEqualReplicas(swarm);
    *saved = Save(swarm);
    GoOn(&swarm, step, *saved);
    return Save(swarm);
  }
  // As if its process was killed, once the current event is over.
  static void Kill(SimSwarm* swarm, SimSwarm::Peer* victim) {
    swarm->world_.At(swarm->world_.Now(), [swarm, victim] {
      swarm->network_.Kill(victim->id_);
      victim->runner_.reset();
    });
  }
  static void ExpectNamedByItsGroup(SimSwarm* swarm, const SimSwarm::Peer& victim) {
    swarm->Begin(1000);
    swarm->Run(std::chrono::seconds(3));
    EXPECT_LT(swarm->losses_.size(), 1000u);
    for (const auto& peer : swarm->peers()) {
      if (peer->stage_ != victim.stage_ || peer->id_ == victim.id_) continue;
      ASSERT_TRUE(peer->trouble().has_value());
      EXPECT_EQ(peer->trouble()->status.code(), StatusCode::kUnavailable) << Why(*swarm);
      EXPECT_EQ(peer->trouble()->peer, victim.id_);
    }
  }
  // Messages inside groups from `step` applied on until the next one is.
  static std::uint64_t GroupMessages(std::uint64_t step) {
    SimSwarm swarm(Options(1));
    std::uint64_t count = 0;
    EXPECT_TRUE(swarm.Open(0) && swarm.TrainTo(step)) << Why(swarm);
    swarm.network_.tap = [&](const PeerId&, const PeerId&, net::Frame* frame) {
      count += frame->kind == net::FrameKind::kGroup ? 1 : 0;
      return 1;
    };
    EXPECT_TRUE(swarm.TrainTo(step + 1)) << Why(swarm);
    return count;
  }
};

TEST_P(MethodDeath, InAnExchangeTheRunGoesOnFromTheCheckpoint) {
  for (const std::uint64_t step : {4u, 5u, 7u}) {  // 5 is saved, 7 has one at 6 behind it
    const std::uint64_t resume = step / kSaved * kSaved;
    Saved saved;
    const Saved expected = ClosedAfter(resume, &saved);
    const std::uint64_t messages = GroupMessages(step);
    for (std::uint64_t tenth = 0; messages > 0 && tenth <= 10; tenth += kOneIn) {
      const std::uint64_t lost = std::max<std::uint64_t>(1, messages * tenth / 10);
      SCOPED_TRACE(testing::Message() << "step " << step << ", message " << lost);
      SimSwarm swarm(Options(static_cast<unsigned>(1 + tenth)));
      ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(resume)) << Why(swarm);
      ASSERT_EQ(Save(swarm), saved);
      ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
      SimSwarm::Peer* const victim = swarm.peers()[(step + tenth) % 6].get();
      std::uint64_t count = 0;
      swarm.network_.tap = [&](const PeerId&, const PeerId&, net::Frame* frame) {
        if (frame->kind == net::FrameKind::kGroup && ++count == lost) Kill(&swarm, victim);
        return 1;
      };
      ExpectNamedByItsGroup(&swarm, *victim);
      GoOn(&swarm, resume, saved);
      EXPECT_EQ(Save(swarm), expected);
    }
  }
}

// Where models hold weights, in which a step that was applied can be seen.
class HolderDeath : public MethodDeath {};

TEST_P(HolderDeath, InTheMidstOfApplyTheRunGoesOnFromTheCheckpoint) {
  for (const std::uint64_t step : {4u, 5u, 6u}) {
    const std::uint64_t resume = step / kSaved * kSaved;
    Saved saved;
    const Saved expected = ClosedAfter(resume, &saved);
    for (unsigned seed = 1; seed <= 6; seed += kOneIn) {
      SCOPED_TRACE(testing::Message() << "step " << step << ", seed " << seed);
      SimSwarm swarm(Options(seed));
      ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(resume)) << Why(swarm);
      ASSERT_EQ(Save(swarm), saved);
      ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
      std::vector<std::uint64_t> before;
      for (const auto& peer : swarm.peers()) before.push_back(peer->model_->WeightChecksum());
      swarm.Begin(step + 1);
      // Until some have applied the step; one that has not dies.
      std::vector<SimSwarm::Peer*> behind;
      const unsigned applied = 1 + seed % 3;
      do {
        ASSERT_TRUE(swarm.world_.Step());
        behind.clear();
        for (std::size_t i = 0; i < 6; ++i) {
          SimSwarm::Peer* const peer = swarm.peers()[i].get();
          if (peer->model_->WeightChecksum() == before[i]) behind.push_back(peer);
        }
      } while (behind.size() > 6 - applied);
      ASSERT_FALSE(behind.empty());
      SimSwarm::Peer* const victim = behind[seed % behind.size()];
      Kill(&swarm, victim);
      ExpectNamedByItsGroup(&swarm, *victim);
      GoOn(&swarm, resume, saved);
      EXPECT_EQ(Save(swarm), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Units, MethodDeath,
                         testing::Values(MethodCase{
                             "qsdp:bucket=16,raw_below=100,shard_parameters=true"}));

const auto kHolders = testing::Values(
    MethodCase{"qsdp:weights=8,gradients=8,bucket=16,raw_below=100"},
    MethodCase{"qsdp:delta=true,gradients=4,bucket=32,raw_below=1,lan=1-2"},
    MethodCase{"qsdp:weights=3,gradients=3,bucket=32,raw_below=1,levels=learned,learn=2/5"},
    MethodCase{"marsit:every=4,start=2"}, MethodCase{"marsit:every=50,shape=torus,start=2"},
    MethodCase{"qadam:bits=4,bucket=64,start=2"}, MethodCase{"powersgd:rank=1,start=2"},
    MethodCase{"average:codec=topk:ratio=0.25/bits=2,local_steps=3", 3},
    MethodCase{"powersgd:rank=1,start=2,local_steps=3", 3});
INSTANTIATE_TEST_SUITE_P(Methods, MethodDeath, kHolders);
INSTANTIATE_TEST_SUITE_P(Methods, HolderDeath, kHolders);

}  // namespace
}  // namespace shoal::pipeline
