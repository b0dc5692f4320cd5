// Gradients that build on an m of their own, in whole swarms: what both ends hold, what crosses the
// boundary, how long the sender keeps what it may have to send again. That both ends hold the same
// through every accident: same_m_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using net::Frame;
using net::FrameKind;
using storage::BoundarySide;
using test_support::ImagesOf;
using test_support::OptionsOf;
using test_support::Place;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr char kPlain[] = "dithered:step=0.5";
constexpr char kWithM[] = "aqsgd:delta=dithered:step=0.5/of=values,first_visit=dithered:step=0.5";
constexpr std::uint64_t kSamples = 36;

SwarmOptions Options(std::uint32_t stages = 2, std::uint32_t pipelines = 1, unsigned seed = 1) {
  return OptionsOf("aqsgd:bits=4", kWithM, stages, pipelines, seed);
}

// A swarm after an epoch of three steps: every sample's gradient has an m.
class GradientMTest : public testing::Test {
 protected:
  void Train(std::uint64_t steps) { ASSERT_TRUE(swarm_.TrainTo(steps)) << Why(swarm_); }
  void SetUp() override {
    ASSERT_TRUE(swarm_.Open(0)) << Why(swarm_);
    Train(3);
  }
  const VisitStats& Gradients(std::uint32_t stage) {
    stats_ = swarm_.at(stage, 0).runner_->stats();
    return *stats_.boundaries.front().gradients;
  }
  // Frames of a kind that the other end gets, of those sent; the rest is lost.
  void Lose(FrameKind kind) {
    swarm_.network_.tap = [kind](const PeerId&, const PeerId&, const Frame* frame) {
      return frame->kind == kind ? 0 : 1;
    };
  }

  SimSwarm swarm_{Options()};
  RunnerStats stats_;
};

TEST_F(GradientMTest, TheSecondVisitTravelsAsAChange) {
  EXPECT_EQ(Gradients(0).first_visits, kSamples);
  EXPECT_EQ(Gradients(0).delta_hits, 0u);
  std::map<std::uint64_t, std::uint64_t> versions;  // of what gradients build on
  std::size_t received = 0;
  swarm_.network_.tap = [&](const PeerId& from, const PeerId&, Frame* frame) {
    if (frame->kind == FrameKind::kReceived) ++received;
    if (frame->kind != FrameKind::kGradient) return 1;
    EXPECT_EQ(from, swarm_.at(1, 0).id_);
    for (const net::FrameSample& sample : frame->samples) {
      versions[sample.sample.value] = sample.base_version;
    }
    return 1;
  };
  Train(6);
  ASSERT_EQ(versions.size(), kSamples);
  for (const auto& [sample, version] : versions) EXPECT_TRUE(version >= 1 && version <= 3);
  EXPECT_EQ(received, 18u) << "one for each micro-batch";
  for (const std::uint32_t stage : {0, 1}) {
    EXPECT_EQ(Gradients(stage).delta_hits, kSamples) << stage;
    EXPECT_EQ(Gradients(stage).resends, 0u) << stage;
    EXPECT_EQ(Gradients(stage).mode, compression::DeltaMode::kDelta) << stage;
  }
  // Who codes knows by how much tokens change.
  EXPECT_GT(Gradients(1).relative_delta.messages, 0u);
  EXPECT_EQ(Gradients(0).relative_delta.messages, 0u);
  const auto sent = ImagesOf(swarm_.at(1, 0), Place(0, BoundarySide::kGradientSender));
  EXPECT_EQ(sent.size(), kSamples);
  EXPECT_TRUE(sent == ImagesOf(swarm_.at(0, 0), Place(0, BoundarySide::kGradientReceiver)));
  EXPECT_TRUE(swarm_.checksum_mismatches_.empty());
  EXPECT_EQ(swarm_.at(1, 0).runner_->stats().staged_bytes, 0u);
}

// Where the model hardly changes any more, neither do gradients.
TEST(GradientMSimTest, ChangesOfGradientsTakeFewerBytesThanGradients) {
  std::map<std::string, std::uint64_t> bytes;
  std::map<std::string, double> losses;
  for (const char* backward : {kPlain, kWithM}) {
    SwarmOptions options = OptionsOf("aqsgd:bits=4", backward, 3);
    options.row_tokens = 32;
    options.learning_rate = [](std::uint64_t) { return 0.02; };
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
    const std::uint64_t before = swarm.at(1, 0).runner_->stats().backward.wire_sent;
    ASSERT_TRUE(swarm.TrainTo(15)) << Why(swarm);
    bytes[backward] = swarm.at(1, 0).runner_->stats().backward.wire_sent - before;
    losses[backward] = swarm.losses_.back();
  }
  EXPECT_LT(bytes[kWithM], bytes[kPlain] * 3 / 4);
  EXPECT_NEAR(losses[kWithM], losses[kPlain], 0.01 * losses[kPlain]);
}

// ---- lost and wrong m ----

class LostGradientM : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(LostGradientM, IsSentInFullOnceAndChecksumsAgreeAgain) {
  const auto [at_receiver, wrong_version] = GetParam();
  SimSwarm swarm(Options());
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  SimSwarm::Peer& victim = swarm.at(at_receiver ? 0 : 1, 0);
  const storage::BoundaryEnd end =
      Place(0, at_receiver ? BoundarySide::kGradientReceiver : BoundarySide::kGradientSender);
  const SegmentId sample{3};
  auto record = victim.store_->Get(end, sample);
  ASSERT_TRUE(record.ok() && record->has_value());
  if (wrong_version) {
    ++(*record)->version;
    std::vector<storage::DeltaUpdate> updates;
    updates.push_back({sample, std::move(**record)});
    ASSERT_TRUE(victim.store_->Commit(end, updates, nullptr).ok());
  } else {
    ASSERT_TRUE(victim.store_->Drop(end, std::vector{sample}, UINT64_MAX).ok());
  }
  swarm.checksum_mismatches_.clear();
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  for (const std::uint32_t stage : {0, 1}) {
    const RunnerStats stats = swarm.at(stage, 0).runner_->stats();
    const VisitStats& gradients = *stats.boundaries.front().gradients;
    // What is sent again was a change to its sender before.
    const std::uint64_t resent = at_receiver || wrong_version ? 1 : 0;
    EXPECT_EQ(gradients.resends, resent);
    EXPECT_EQ(gradients.first_visits, kSamples + 1);
    EXPECT_EQ(gradients.delta_hits, 2 * kSamples - 1 + (stage == 1 ? resent : 0));
    EXPECT_EQ(stats.boundaries.front().resends, 0u) << "of activations";
  }
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

INSTANTIATE_TEST_SUITE_P(All, LostGradientM, testing::Combine(testing::Bool(), testing::Bool()));

// Both ends compare what they hold behind every step, also while m of gradients makes room.
TEST(GradientMSimTest, WhereTheQuotaIsShortMOfActivationsStays) {
  for (const std::uint32_t stages : {2u, 3u}) {
    SwarmOptions options = Options(stages);
    // An image, of either kind, has 16 + 2 x 40 bytes: room for all m of activations, and a half.
    // A stage between two boundaries has that of both.
    const std::uint64_t kept = (stages - 1) * kSamples;
    options.store_bytes_max = kept * 3 / 2 * 96;
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty()) << stages;
    SimSwarm::Peer& full = swarm.at(1, 0);
    EXPECT_EQ(ImagesOf(full, Place(0, BoundarySide::kReceiver)).size(), kSamples);
    const std::size_t of_gradients = ImagesOf(full, Place(0, BoundarySide::kGradientSender)).size();
    EXPECT_LT(of_gradients, kSamples);
    if (stages == 2) {
      EXPECT_EQ(of_gradients, kSamples / 6) << "half, less a step's m of activations";
    } else {
      EXPECT_EQ(ImagesOf(full, Place(1, BoundarySide::kSender)).size(), kSamples);
    }
    const VisitStats gradients = *full.runner_->stats().boundaries.front().gradients;
    EXPECT_EQ(full.runner_->stats().resends + gradients.resends, 0u);
    EXPECT_LE(full.store_->stats().bytes, options.store_bytes_max);
    // Later steps take no room from one another.
    const std::uint64_t evicted = full.store_->stats().evicted;
    ASSERT_TRUE(swarm.TrainTo(15)) << Why(swarm);
    EXPECT_EQ(ImagesOf(full, Place(0, BoundarySide::kReceiver)).size(), kSamples);
    EXPECT_EQ(ImagesOf(full, Place(0, BoundarySide::kGradientSender)).size(), of_gradients);
    EXPECT_LE(full.store_->stats().evicted - evicted, kept) << "refused, not displaced";
  }
}

TEST_F(GradientMTest, LinkUpKeepsWhatBothEndsHaveOfBothDirections) {
  swarm_.Close();
  swarm_.Run(std::chrono::seconds(1));
  const auto drop = [&](std::uint32_t stage, BoundarySide side, std::vector<SegmentId> segments) {
    ASSERT_TRUE(swarm_.at(stage, 0).store_->Drop(Place(0, side), segments, UINT64_MAX).ok());
  };
  drop(0, BoundarySide::kSender, {{1}});
  drop(0, BoundarySide::kGradientReceiver, {{2}, {3}});
  drop(1, BoundarySide::kGradientSender, {{3}, {4}});
  ASSERT_TRUE(swarm_.Open(3)) << Why(swarm_);
  Train(6);
  for (const std::uint32_t stage : {0, 1}) {
    EXPECT_EQ(Gradients(stage).first_visits, 3u);
    EXPECT_EQ(Gradients(stage).resends, 0u);
    EXPECT_EQ(stats_.boundaries.front().first_visits, 1u);
  }
  EXPECT_TRUE(swarm_.checksum_mismatches_.empty());
}

TEST(GradientMSimTest, ARestartContinuesToTheBit) {
  SwarmOptions options = Options(3, 2);
  SimSwarm undisturbed(options);
  ASSERT_TRUE(undisturbed.Open(0)) << Why(undisturbed);
  ASSERT_TRUE(undisturbed.TrainTo(10)) << Why(undisturbed);
  options.seed = 5;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  for (const std::uint64_t step : {4u, 5u, 10u}) {
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    if (step == 10) break;
    swarm.Close();
    swarm.Run(std::chrono::seconds(1));
    ASSERT_TRUE(swarm.Open(step)) << Why(swarm);
  }
  EXPECT_EQ(swarm.SaveWeights(), undisturbed.SaveWeights());
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(GradientMSimTest, ADeviceHoldsTheSame) {
  SwarmOptions options = OptionsOf(
      "aqsgd:bits=4",
      "aqsgd:delta=dithered:step=0.4/klt=4/channels=on/of=values,first_visit=dithered:step=0.4");
  options.row_tokens = 60;
  SimSwarm host(options);
  options.on_device = [](std::uint32_t stage, std::uint32_t) { return stage == 1; };
  SimSwarm there(options);
  for (SimSwarm* swarm : {&host, &there}) {
    ASSERT_TRUE(swarm->Open(0)) << Why(*swarm);
    ASSERT_TRUE(swarm->TrainTo(7)) << Why(*swarm);
    EXPECT_TRUE(swarm->checksum_mismatches_.empty());
    for (const auto& peer : swarm->peers()) EXPECT_TRUE(peer->runner_->stats().on_host.empty());
  }
  EXPECT_EQ(there.SaveWeights(), host.SaveWeights());
  EXPECT_TRUE(ImagesOf(there.at(1, 0), Place(0, BoundarySide::kGradientSender)) ==
              ImagesOf(host.at(1, 0), Place(0, BoundarySide::kGradientSender)));
}

// ---- what the sender keeps ----

// It is a matter of memory alone: where that has no bound, the step ends with or without.
TEST_F(GradientMTest, StepsEndWithoutAcknowledgements) {
  Lose(FrameKind::kReceived);
  Train(9);
  EXPECT_TRUE(swarm_.checksum_mismatches_.empty());
}

// The upper stage computes as many gradients ahead as it may keep.
TEST(GradientMSimTest, WithABoundOfMemoryFewGradientsWaitForTheirAcknowledgement) {
  SwarmOptions options = Options();
  options.micro_batches = 24;
  options.activation_memory_bytes = 4096;
  for (const bool lost : {false, true}) {
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    std::map<std::uint64_t, int> waiting;  // by step
    int most = 0;
    swarm.network_.tap = [&](const PeerId&, const PeerId&, const Frame* frame) {
      if (frame->kind == FrameKind::kGradient) {
        most = std::max(most, ++waiting[frame->micro_batch.step]);
      }
      if (frame->kind != FrameKind::kReceived) return 1;
      if (lost) return 0;
      --waiting[frame->micro_batch.step];
      return 1;
    };
    EXPECT_EQ(swarm.TrainTo(4), !lost) << Why(swarm);
    EXPECT_LE(most, 4) << "lost " << lost;
    if (lost) {
      EXPECT_EQ(most, 4);
    } else {
      EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    }
  }
}

// ---- pipelines that come and go ----

TEST(GradientMSimTest, APipelineThatDoesNotCountKeepsItsM) {
  SimSwarm swarm(Options(2, 2));
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  const auto at = [&](std::uint32_t pipeline) {
    return ImagesOf(swarm.at(1, pipeline), Place(0, BoundarySide::kGradientSender));
  };
  const auto counts = at(0), does_not = at(1);
  ASSERT_EQ(does_not.size(), kSamples / 2);
  swarm.counted_ = {0};
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_TRUE(at(1) == does_not);
  EXPECT_TRUE(ImagesOf(swarm.at(0, 1), Place(0, BoundarySide::kGradientReceiver)) == does_not);
  const auto later = at(0);
  for (const auto& [sample, image] : counts) EXPECT_NE(later.at(sample), image);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

// A running step gets what a pipeline that left had of it.
TEST(GradientMSimTest, WhatAPipelineLeavesBehindIsTrainedByTheOthers) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SwarmOptions options = Options(3, 3, seed);
    options.bytes_per_second = 50'000;
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
    swarm.Begin(12);
    swarm.Run(std::chrono::microseconds(15'000 * seed));
    ASSERT_LT(swarm.losses_.size(), 12u);
    swarm.Leave(2);
    ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    for (std::uint32_t pipeline = 0; pipeline < 2; ++pipeline) {
      for (std::uint32_t b = 0; b < 2; ++b) {
        EXPECT_TRUE(ImagesOf(swarm.at(b, pipeline), Place(b, BoundarySide::kGradientReceiver)) ==
                    ImagesOf(swarm.at(b + 1, pipeline), Place(b, BoundarySide::kGradientSender)));
      }
    }
  }
}

// ---- acknowledgements out of place ----

TEST_F(GradientMTest, AnAcknowledgementMayComeBehindItsStep) {
  std::vector<Frame> late;
  swarm_.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    if (frame->kind != FrameKind::kReceived) return 1;
    Frame now = CopyOf(*frame);
    late.push_back(std::move(now));
    // Those of the first step travel in the place of those of the second.
    if (frame->micro_batch.step == 3) return 0;
    frame->micro_batch.step = 3;
    return 1;
  };
  Train(5);
  EXPECT_EQ(late.size(), 12u);
}

TEST_F(GradientMTest, AForgedAcknowledgementEndsTheGenerationAndNamesThePeer) {
  using Forge = std::function<void(Frame*)>;
  const std::vector<std::pair<const char*, Forge>> forgeries = {
      {"came before it was sent", [](Frame* frame) { frame->micro_batch.index = 77; }},
      {"before its step began", [](Frame* frame) { frame->micro_batch.step += 1; }},
  };
  std::uint64_t steps = 3;
  for (const auto& forgery : forgeries) {
    const char* const words = forgery.first;
    swarm_.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
      if (frame->kind == FrameKind::kReceived) forgery.second(frame);
      return 1;
    };
    EXPECT_FALSE(swarm_.TrainTo(steps + 1)) << words;
    ASSERT_TRUE(swarm_.at(1, 0).failure_) << words;
    EXPECT_NE(Why(swarm_).find(words), std::string::npos) << Why(swarm_);
    EXPECT_EQ(swarm_.at(1, 0).failure_->peer, swarm_.at(0, 0).id_);
    swarm_.network_.tap = nullptr;
    swarm_.Close();
    swarm_.Run(std::chrono::seconds(1));
    steps = swarm_.losses_.size();
    ASSERT_TRUE(swarm_.Open(steps)) << Why(swarm_);
  }
}

TEST(GradientMSimTest, WithoutMAnAcknowledgementAndAnInventoryOfGradientsAreRefused) {
  for (const FrameKind kind : {FrameKind::kReceived, FrameKind::kInventory, FrameKind::kEvicted}) {
    SimSwarm swarm(OptionsOf("aqsgd:bits=4", "direct:bits=8"));
    bool forged = false;
    swarm.network_.tap = [&](const PeerId& from, const PeerId&, Frame* frame) {
      const bool take = kind == FrameKind::kReceived ? frame->kind == FrameKind::kActivation
                                                     : frame->kind == kind;
      if (!take || from != swarm.at(0, 0).id_ || std::exchange(forged, true)) return 1;
      frame->kind = kind;
      frame->tag = 1;
      return 1;
    };
    EXPECT_FALSE(swarm.Open(0) && swarm.TrainTo(2));
    ASSERT_TRUE(swarm.at(1, 0).failure_);
    EXPECT_EQ(swarm.at(1, 0).failure_->status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(swarm.at(1, 0).failure_->peer, swarm.at(0, 0).id_);
  }
}

// ---- refusals ----

TEST(GradientMSimTest, ChangesThatRoundToOneSideAreRefused) {
  for (const char* backward :
       {"aqsgd:bits=4", "aqsgd:delta=dithered:step=0.5,first_visit=dithered:step=0.5",
        "aqsgd:delta=dithered:step=0.5/dither=off,first_visit=dithered:step=0.5",
        "aqsgd:delta=dithered:step=0.5,first_visit=direct:bits=8",
        "aqsgd:delta=dithered:step=0.5,first_visit=dithered:step=0.5,m=8",
        "aqsgd:delta=lowrank:rank=4,first_visit=raw:dtype=fp16"}) {
    SimSwarm swarm(OptionsOf("aqsgd:bits=4", backward));
    EXPECT_FALSE(swarm.Open(0));
    EXPECT_NE(Why(swarm).find("delta=dithered:step=0.4/channels=on/of=values and"),
              std::string::npos)
        << backward << ": " << Why(swarm);
  }
}

}  // namespace
}  // namespace shoal::pipeline
