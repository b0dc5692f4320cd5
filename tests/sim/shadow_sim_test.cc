// Shadows: members of a stage group that get its state from the others while these train.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::Quantised;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

// Of every kind that lets members follow; momenta behind their warm-up, and at its end.
constexpr const char* kMethods[] = {"average",
                                    "average:codec=direct:bits=4/bucket=64",
                                    "powersgd:rank=1,start=2",
                                    "qadam:bits=4,bucket=64,start=3",
                                    "qadam:bits=32,start=7",
                                    "qadam:bits=8,bucket=64,start=3,refresh=on",
                                    "onebit:bucket=64,start=12"};

SwarmOptions Options(unsigned seed, const std::string& method = "average") {
  SwarmOptions options = Quantised(2, 3, seed);
  options.adamw = true;
  options.replica = method;
  options.tied = seed % 2 == 0;
  options.run_steps = 1000;
  // Of some steps, so that chunks come in time, too late and in between.
  options.bytes_per_second = seed % 3 == 0 ? 0 : 200'000.0 * (seed % 4 + 1);
  return options;
}

void Zero(SimSwarm* swarm, std::uint32_t pipeline) {
  for (const auto& peer : swarm->peers()) {
    if (peer->pipeline_ != pipeline) continue;
    const std::vector<float> zeros(peer->model_->state_size());
    for (const auto which : {model::StateVector::kWeights, model::StateVector::kFirstMoment,
                             model::StateVector::kSecondMoment}) {
      ASSERT_TRUE(peer->model_->Write(which, 0, zeros).ok());
    }
  }
}

void Take(const SimSwarm::StageState& state, SimSwarm::Peer* peer) {
  std::size_t next = 0;
  for (const auto which : {model::StateVector::kWeights, model::StateVector::kFirstMoment,
                           model::StateVector::kSecondMoment}) {
    ASSERT_TRUE(peer->model_->Write(which, 0, state[next++]).ok());
  }
}

// Five steps of all; then pipeline 2 has lost its stages, and a generation begins.
void BeginWithAShadow(SimSwarm* swarm) {
  ASSERT_TRUE(swarm->Open(0)) << Why(*swarm);
  ASSERT_TRUE(swarm->TrainTo(5)) << Why(*swarm);
  swarm->Close();
  swarm->Run(std::chrono::seconds(5));
  Zero(swarm, 2);
  swarm->shadows_ = {2};
  swarm->counted_ = {0, 1};
  ASSERT_TRUE(swarm->Open(5)) << Why(*swarm);
}

bool AllCaughtUp(SimSwarm& swarm, std::uint32_t pipeline) {
  return std::ranges::all_of(swarm.peers(), [&](const auto& peer) {
    return peer->pipeline_ != pipeline || peer->caught_up_.has_value();
  });
}

void ExpectEqualGroups(SimSwarm& swarm) {
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(swarm.SaveStage(stage, 2), swarm.SaveStage(stage, 0)) << stage;
    EXPECT_EQ(swarm.SaveStage(stage, 1), swarm.SaveStage(stage, 0)) << stage;
  }
}

class ShadowMethodSimTest : public testing::TestWithParam<const char*> {};

TEST_P(ShadowMethodSimTest, GetsItsStageWhileTheOthersTrainAndCountsThen) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Options(seed, GetParam()));
    BeginWithAShadow(&swarm);
    if (HasFatalFailure()) return;
    std::uint64_t step = 5;
    while (!AllCaughtUp(swarm, 2) && step < 400) ASSERT_TRUE(swarm.TrainTo(++step)) << Why(swarm);
    ASSERT_TRUE(AllCaughtUp(swarm, 2));
    ASSERT_TRUE(swarm.TrainTo(step + 1)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    ExpectEqualGroups(swarm);
    swarm.counted_ = {0, 1, 2};
    ASSERT_TRUE(swarm.TrainTo(step + 9)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    ExpectEqualGroups(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
}

// Pipelines 1 and 2 lack a stage each. Their other peers follow pipeline 0.
TEST_P(ShadowMethodSimTest, WhoIsLeftOfPipelinesWithGapsFollows) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Options(seed, GetParam()));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
    swarm.Close();
    swarm.Run(std::chrono::seconds(5));
    swarm.gaps_ = {{0, 1}, {1, 2}};
    swarm.counted_ = {0};
    ASSERT_TRUE(swarm.Open(5)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(20)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    EXPECT_EQ(swarm.SaveStage(1, 1), swarm.SaveStage(1, 0));
    EXPECT_EQ(swarm.SaveStage(0, 2), swarm.SaveStage(0, 0));
    EXPECT_NE(swarm.SaveStage(0, 1), swarm.SaveStage(0, 0)) << "it was not there";
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    // Others come to the gaps; m of before is of use where both ends have it.
    swarm.Close();
    swarm.Run(std::chrono::seconds(5));
    for (const auto& [stage, pipeline] : swarm.gaps_) {
      Take(swarm.SaveStage(stage, 0), &swarm.at(stage, pipeline));
    }
    swarm.gaps_.clear();
    swarm.counted_.clear();
    ASSERT_TRUE(swarm.Open(20)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(32)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    ExpectEqualGroups(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
}

// In the midst of a step a peer goes, and perhaps one of another pipeline. Who is left of theirs
// follows from that step on, and then trains again.
TEST_P(ShadowMethodSimTest, WhoIsLeftOfABrokenPipelineFollows) {
  std::set<int> moments;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Options(seed, GetParam()));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
    std::mt19937 random(seed);
    swarm.Begin(12);
    swarm.Run(std::chrono::microseconds(random() % 200'000));
    if (swarm.losses_.size() >= 12) continue;
    SimSwarm::Places lost = {{seed % 2, 1}};
    const SimSwarm::Reported at = swarm.Leave(lost);
    moments.insert(at.synced > 0 ? 3 : at.ready == swarm.peers().size() ? 2 : at.ready > 0 ? 1 : 0);
    if (seed % 3 == 0) {
      swarm.Run(std::chrono::microseconds(random() % 30'000));
      if (swarm.losses_.size() < 12) lost.emplace(seed / 2 % 2, 2);
      if (swarm.losses_.size() < 12) swarm.Leave(lost);
    }
    if (seed % 4 == 0) {  // who follows goes, too
      swarm.Run(std::chrono::microseconds(random() % 100'000));
      const SimSwarm::Places follows = {{1 - seed % 2, 1}};
      if (swarm.losses_.size() < 12) lost.merge(SimSwarm::Places(follows));
      if (swarm.losses_.size() < 12) swarm.Leave(follows);
    }
    ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    for (const auto& peer : swarm.peers()) {
      if (lost.contains({peer->stage_, peer->pipeline_})) continue;
      EXPECT_EQ(swarm.SaveStage(peer->stage_, peer->pipeline_), swarm.SaveStage(peer->stage_, 0))
          << "stage " << peer->stage_ << " of pipeline " << peer->pipeline_;
    }
    swarm.Close();
    swarm.Run(std::chrono::seconds(5));
    for (const auto& [stage, pipeline] : lost) {
      Take(swarm.SaveStage(stage, 0), &swarm.at(stage, pipeline));
    }
    swarm.counted_.clear();
    ASSERT_TRUE(swarm.Open(12)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(20)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    ExpectEqualGroups(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
  EXPECT_EQ(moments, (std::set<int>{0, 1, 2, 3}));
}

// Pipeline 1 lacks a stage. One that counts goes, or who is left of that one.
TEST(ShadowSimTest, PipelinesLeaveBesideOneWithAGap) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Options(seed));
    swarm.gaps_ = {{0, 1}};
    swarm.counted_ = {0, 2};
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
    swarm.Begin(10);
    swarm.Run(std::chrono::milliseconds(37 * seed % 200));
    const std::uint32_t leaves = seed % 2 == 0 ? 1 : 2, stays = 3 - leaves;
    if (swarm.losses_.size() < 10) swarm.Leave(leaves);
    ASSERT_TRUE(swarm.TrainTo(10)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    EXPECT_EQ(swarm.SaveStage(1, stays), swarm.SaveStage(1, 0));
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
}

// Beside them one that has only begun to get its stage.
TEST(ShadowSimTest, AShadowOfAPipelineWithAGapGetsItsStage) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimSwarm swarm(Options(seed));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
    swarm.Close();
    swarm.Run(std::chrono::seconds(5));
    Zero(&swarm, 2);
    swarm.shadows_ = {2};
    swarm.gaps_ = {{0, 1}, {0, 2}};
    swarm.counted_ = {0};
    ASSERT_TRUE(swarm.Open(5)) << Why(swarm);
    std::uint64_t step = 5;
    while (!swarm.at(1, 2).caught_up_ && step < 400) {
      ASSERT_TRUE(swarm.TrainTo(++step)) << Why(swarm);
    }
    ASSERT_TRUE(swarm.TrainTo(step + 3)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    EXPECT_EQ(swarm.SaveStage(1, 2), swarm.SaveStage(1, 0));
    EXPECT_EQ(swarm.SaveStage(1, 1), swarm.SaveStage(1, 0));
  }
}

TEST(ShadowSimTest, APipelineWithAGapTakesNoMicroBatches) {
  SimSwarm swarm(Options(1));
  swarm.gaps_ = {{0, 1}};
  swarm.counted_ = {0, 1, 2};
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_FALSE(swarm.TrainTo(1));
  EXPECT_NE(Why(swarm).find("has micro-batches for pipeline 1, which lacks a stage"),
            std::string::npos)
      << Why(swarm);
}

// What a shadow has got is right in the next generation, if it holds the same steps.
TEST(ShadowSimTest, GoesOnWhereItWasWhenAGenerationEnds) {
  SwarmOptions options = Options(1);
  options.bytes_per_second = 30'000;
  options.state_chunk_values = 2;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  std::uint64_t step = 3;
  std::size_t lacked = 0, generations = 0;
  Zero(&swarm, 2);
  swarm.shadows_ = {2};
  swarm.counted_ = {0, 1};
  do {
    swarm.Close();
    swarm.Run(std::chrono::seconds(30));
    ASSERT_TRUE(swarm.Open(step)) << Why(swarm);
    ++step;
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    std::size_t lacks = 0;
    for (const auto& peer : swarm.peers()) {
      if (peer->pipeline_ != 2) continue;
      peer->missing_ = peer->runner_->missing_state();
      lacks += peer->missing_->count();
    }
    EXPECT_TRUE(generations++ == 0 || lacks <= lacked) << lacks;
    lacked = lacks;
  } while (lacked > 0 && generations < 300);
  EXPECT_EQ(lacked, 0u);
  EXPECT_GT(generations, 2u);
  ExpectEqualGroups(swarm);
}

// A generation may end before the links are open by which a shadow asks for anything. Whoever took
// that for "lacks nothing" trained on with weights of its own.
TEST(ShadowSimTest, LacksAllUntilItsTransferHasBegun) {
  SimSwarm swarm(Options(1));
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(5));
  Zero(&swarm, 2);
  swarm.shadows_ = {2};
  swarm.counted_ = {0, 1};
  for (const auto& peer : swarm.peers()) {
    peer->Make(3);
    if (peer->pipeline_ != 2) continue;
    EXPECT_FALSE(peer->runner_->missing_state().has_value());
    peer->missing_ = replica::MissingValues(5);
    peer->Make(3);
    ASSERT_TRUE(peer->runner_->missing_state().has_value());
    EXPECT_EQ(peer->runner_->missing_state()->count(), 5u);
    peer->missing_.reset();
  }
}

// A pipeline leaves in the midst of a step while another gets its stages: one of the two that hold
// them, whose part of the transfer the other takes over, or the one that gets them.
TEST_P(ShadowMethodSimTest, TheOthersGoOnWhereAPipelineLeaves) {
  int midway = 0;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SwarmOptions options = Options(seed, GetParam());
    options.forward = options.backward = "raw:dtype=fp32";
    options.bytes_per_second = 40'000.0 * (seed % 4 + 1);
    options.state_chunk_values = 4;
    SimSwarm swarm(options);
    BeginWithAShadow(&swarm);
    if (HasFatalFailure()) return;
    swarm.Begin(40);
    swarm.Run(std::chrono::microseconds(20'000 + seed * 17'000));
    ASSERT_LT(swarm.losses_.size(), 40u);
    midway += AllCaughtUp(swarm, 2) ? 0 : 1;
    const std::uint32_t gone = seed % 3 == 0 ? 2 : 1;
    swarm.Leave(gone);
    std::uint64_t step = 40;
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    const std::uint32_t left = gone == 2 ? 1 : 2;
    while (gone == 1 && !AllCaughtUp(swarm, 2) && step < 400) {
      ASSERT_TRUE(swarm.TrainTo(++step)) << Why(swarm);
    }
    ASSERT_TRUE(gone == 2 || AllCaughtUp(swarm, 2));
    swarm.Count({0, left});
    ASSERT_TRUE(swarm.TrainTo(step + 6)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    for (std::uint32_t stage = 0; stage < 2; ++stage) {
      EXPECT_EQ(swarm.SaveStage(stage, left), swarm.SaveStage(stage, 0)) << stage;
    }
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  }
  EXPECT_GT(midway, 12);
}

// A run of several pipelines may come down to one. With plain AdamW it stepped too far then: that
// takes the variance for one that every step has updated. Nobody gets what codes leave out, so none
// are used.
TEST(ShadowSimTest, OnePipelineAloneKeepsTheVarianceFrozen) {
  for (const bool tied : {false, true}) {
    SwarmOptions options = Options(2, "qadam:bits=32,start=3");
    options.tied = tied;
    options.pipelines = 1;
    const auto states = [&](const char* method, std::uint64_t steps) {
      options.replica = method;
      SimSwarm swarm(options);
      EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
      EXPECT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
      return std::vector{swarm.SaveStage(0, 0), swarm.SaveStage(1, 0)};
    };
    const auto at3 = states("qadam:bits=32,start=3", 3), at9 = states("qadam:bits=32,start=3", 9);
    const auto adam = states("average", 9);
    for (const char* coded : {"qadam:bits=4,bucket=64,start=3", "onebit:bucket=64,start=3",
                              "marsit:start=3,every=4", "marsit:start=3"}) {
      EXPECT_EQ(states(coded, 9), at9) << coded;
    }
    for (std::size_t stage = 0; stage < 2; ++stage) {
      EXPECT_NE(at9[stage][0], at3[stage][0]);
      EXPECT_NE(at9[stage][1], at3[stage][1]);
      EXPECT_EQ(at9[stage][2], at3[stage][2]);
      EXPECT_NE(adam[stage][2], at3[stage][2]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShadowMethodSimTest, testing::ValuesIn(kMethods));

}  // namespace
}  // namespace shoal::pipeline
