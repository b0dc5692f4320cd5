// Whole swarms whose micro-batches travel in segments.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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
using test_support::kSimRun;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kSamples = 36;
constexpr std::uint32_t kSegments = 4;

// Rows of 8 tokens: 4 segments of 2, or whole.
SwarmOptions Options(const std::string& forward, const std::string& backward,
                     bool segments = true) {
  SwarmOptions options = test_support::OptionsOf(forward, backward);
  options.row_tokens = 8;
  if (segments) options.segment_bytes_min = 1;
  return options;
}

SwarmOptions Quantised() { return Options("aqsgd:bits=4", "direct:bits=8"); }

// ---- what travels ----

struct Seen {
  std::uint64_t tag;
  TimePoint when;
};
using Transfers = std::map<std::tuple<FrameKind, std::uint64_t, std::uint32_t>, std::vector<Seen>>;

TEST(SegmentsSimTest, EachSegmentIsAFrameThatLeavesBeforeTheNextIsEncoded) {
  SimSwarm swarm(Quantised());
  Transfers seen;
  swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    if (frame->kind != FrameKind::kActivation && frame->kind != FrameKind::kGradient) return 1;
    EXPECT_EQ(frame->tokens, 2u);
    EXPECT_EQ(frame->samples.size(), 2u);
    EXPECT_LT(frame->samples.front().sample.value, kSamples);
    seen[{frame->kind, frame->micro_batch.step, frame->micro_batch.index}].push_back(
        {frame->tag, swarm.world_.Now()});
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_EQ(seen.size(), 2u * 6 * 6);
  for (const auto& [key, frames] : seen) {
    ASSERT_EQ(frames.size(), kSegments);
    for (std::uint32_t k = 0; k < kSegments; ++k) {
      EXPECT_EQ(frames[k].tag, k);
      // One codec thread, and every task takes its time.
      if (k > 0) {
        EXPECT_GT(frames[k].when, frames[k - 1].when);
      }
    }
  }
  const RunnerStats stats = swarm.at(0, 0).runner_->stats();
  // Samples, not segments of them.
  EXPECT_EQ(stats.first_visits, kSamples);
  EXPECT_EQ(stats.delta_hits, kSamples);
  EXPECT_EQ(stats.forward.raw_sent, 2 * kSamples * 8 * swarm.shape_.hidden * 4);
  EXPECT_EQ(stats.forward.raw_sent, stats.backward.raw_received);
  EXPECT_EQ(stats.prefetch_bytes, 0u);
  EXPECT_EQ(stats.boundaries.front().forward_error.messages, 6u * 6);
  EXPECT_EQ(stats.boundaries.front().without_m.messages, 6u * 6);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().delta_hits, kSamples);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().first_visits, kSamples);
  EXPECT_EQ(swarm.at(0, 0).store_->stats().records, kSegments * kSamples);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(SegmentsSimTest, SmallModelsTravelWhole) {
  SimSwarm swarm(Options("aqsgd:bits=4", "direct:bits=8", false));
  std::size_t frames = 0;
  swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    if (frame->kind == FrameKind::kActivation) {
      ++frames;
      EXPECT_EQ(frame->tag, 0u);
      EXPECT_EQ(frame->tokens, 8u);
    }
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(2)) << Why(swarm);
  EXPECT_EQ(frames, 2u * 6);
}

// ---- what they come to ----

std::vector<std::vector<float>> Weights(const SwarmOptions& options) {
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(8)) << Why(swarm);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  return swarm.SaveWeights();
}

class SameValues : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SameValues, AsInOneMessage) {
  SwarmOptions options = Options(GetParam().first, GetParam().second);
  options.stages = 3;
  options.pipelines = 2;
  SwarmOptions whole = options;
  whole.segment_bytes_min = SwarmOptions().segment_bytes_min;
  const auto weights = Weights(options);
  EXPECT_EQ(weights, Weights(whole));
  options.seed = 4711;  // other delays
  EXPECT_EQ(weights, Weights(options));
}

// Codecs that keep nothing beyond a bucket of one token, and m in 16 bits.
INSTANTIATE_TEST_SUITE_P(Codecs, SameValues,
                         testing::Values(std::pair("raw:dtype=fp32", "raw:dtype=bf16"),
                                         std::pair("direct:bits=8", "direct:bits=6"),
                                         std::pair("tiles+rans:bits=6", "direct+zstd:bits=8"),
                                         std::pair("aqsgd:bits=4", "direct:bits=8"),
                                         // One direction in segments.
                                         std::pair("direct:bits=8,bucket=channel", "direct:bits=8"),
                                         std::pair("aqsgd:bits=4",
                                                   "topk:ratio=0.5,bits=8,feedback=on")));

TEST(SegmentsSimTest, OtherCodecsTrainAndRepeatBitForBit) {
  SwarmOptions options =
      Options("aqsgd+rans:bits=4,m=8,first_visit=dithered:step=0.2", "dithered:step=0.7");
  options.stages = 3;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
  EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  options.seed = 17;
  SimSwarm again(options);
  ASSERT_TRUE(again.Open(0)) << Why(again);
  ASSERT_TRUE(again.TrainTo(12)) << Why(again);
  EXPECT_EQ(again.SaveWeights(), swarm.SaveWeights());
}

TEST(SegmentsSimTest, TheOrderInWhichTheyComeDoesNotMatter) {
  const auto expected = Weights(Quantised());
  SimSwarm swarm(Quantised());
  const auto cost = [&swarm](const char*) {
    return std::chrono::microseconds(swarm.random_() % 5000);
  };
  for (const auto& peer : swarm.peers()) {
    peer->codec_ = swarm.world_.NewPool("codec", 2, cost);
  }
  std::map<std::pair<FrameKind, MicroBatchId>, std::uint64_t> last;
  int overtaken = 0;
  swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    std::uint64_t& tag = last[{frame->kind, frame->micro_batch}];
    if (frame->tag < tag) ++overtaken;
    tag = frame->tag;
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(8)) << Why(swarm);
  EXPECT_GT(overtaken, 0);
  EXPECT_EQ(swarm.SaveWeights(), expected);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

// ---- lost and wrong m ----

class LostSegment : public testing::TestWithParam<bool> {};

TEST_P(LostSegment, AloneIsSentInFull) {
  const bool at_receiver = GetParam();
  SimSwarm swarm(Quantised());
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);  // an epoch: all samples have m
  SimSwarm::Peer& victim = swarm.at(at_receiver ? 1 : 0, 0);
  const storage::BoundaryEnd end{kSimRun, 0,
                                 at_receiver ? BoundarySide::kReceiver : BoundarySide::kSender};
  const SegmentId record{kSegments * 5 + 2};  // sample 5, segment 2
  ASSERT_TRUE(victim.store_->Get(end, record)->has_value());
  ASSERT_TRUE(victim.store_->Drop(end, std::vector{record}, UINT64_MAX).ok());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> first_visits, requests;
  std::size_t frames = 0;
  swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    if (frame->kind == FrameKind::kActivation) ++frames;
    for (const net::FrameSample& sample : frame->samples) {
      if (frame->kind == FrameKind::kResend) requests.push_back({sample.sample.value, frame->tag});
      if (frame->kind != FrameKind::kActivation || sample.base_version != 0) continue;
      first_visits.push_back({sample.sample.value, frame->tag});
    }
    return 1;
  };
  const RunnerStats before = victim.runner_->stats();
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> one = {{5, 2}};
  EXPECT_EQ(first_visits, one);
  EXPECT_EQ(requests.size(), at_receiver ? 1u : 0u);
  if (at_receiver) {
    EXPECT_EQ(requests, one);
  }
  EXPECT_EQ(frames, 3u * 6 * kSegments + requests.size());
  const RunnerStats after = victim.runner_->stats();
  EXPECT_EQ(after.resends, requests.size());
  EXPECT_EQ(after.first_visits, before.first_visits + 1);
  EXPECT_EQ(after.delta_hits, before.delta_hits + kSamples - 1);
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  EXPECT_EQ(victim.runner_->stats().delta_hits, after.delta_hits + kSamples);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

INSTANTIATE_TEST_SUITE_P(Ends, LostSegment, testing::Bool());

TEST(SegmentsSimTest, TwoLostSegmentsOfASampleAreOneSampleSentAgain) {
  SimSwarm swarm(Quantised());
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  const storage::BoundaryEnd end{kSimRun, 0, BoundarySide::kReceiver};
  const std::vector<SegmentId> lost = {{kSegments * 5}, {kSegments * 5 + 3}};
  ASSERT_TRUE(swarm.at(1, 0).store_->Drop(end, lost, UINT64_MAX).ok());
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  for (const std::uint32_t stage : {0u, 1u}) {
    const RunnerStats stats = swarm.at(stage, 0).runner_->stats();
    EXPECT_EQ(stats.resends, 1u);
    EXPECT_EQ(stats.first_visits, kSamples + 1);
  }
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(SegmentsSimTest, ALinkUpDropsOnlyWhatOneEndLacks) {
  SimSwarm swarm(Quantised());
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  const storage::BoundaryEnd sender{kSimRun, 0, BoundarySide::kSender};
  const storage::BoundaryEnd receiver{kSimRun, 0, BoundarySide::kReceiver};
  ASSERT_TRUE(swarm.at(1, 0).store_->Drop(receiver, std::vector<SegmentId>{{29}}, UINT64_MAX).ok());
  ASSERT_TRUE(swarm.Open(3)) << Why(swarm);
  EXPECT_EQ(swarm.at(0, 0).store_->Inventory(sender)->size(), kSegments * kSamples - 1);
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_EQ(swarm.at(0, 0).runner_->stats().first_visits, 1u);
  EXPECT_EQ(swarm.at(0, 0).runner_->stats().resends, 0u);
}

// A run whose micro-batches are divided otherwise than before.
TEST(SegmentsSimTest, RecordsOfAnotherDivisionAreNotUsed) {
  SimSwarm swarm(Quantised());
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  swarm.options_.segment_bytes_min = SwarmOptions().segment_bytes_min;
  ASSERT_TRUE(swarm.Open(3)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  const RunnerStats stats = swarm.at(1, 0).runner_->stats();
  EXPECT_EQ(stats.first_visits, kSamples);
  EXPECT_EQ(stats.delta_hits, kSamples);
  EXPECT_EQ(stats.resends, 0u);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(SegmentsSimTest, ResidualsOfSegmentsOutliveARestart) {
  SwarmOptions options = Options("direct:bits=8", "direct:bits=2,feedback=on");
  options.stages = 3;
  SimSwarm undisturbed(options);
  ASSERT_TRUE(undisturbed.Open(0)) << Why(undisturbed);
  ASSERT_TRUE(undisturbed.TrainTo(9)) << Why(undisturbed);
  options.seed = 5;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  ASSERT_TRUE(swarm.Open(5)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  EXPECT_EQ(swarm.SaveWeights(), undisturbed.SaveWeights());
  EXPECT_EQ(swarm.at(1, 0).store_->stats().records, kSegments * kSamples);
}

// ---- bad frames ----

struct Forgery {
  const char* name;
  FrameKind kind;
  std::function<int(Frame*)> change;
  const char* expected;  // part of the message
};

class ForgedSegment : public testing::TestWithParam<Forgery> {};

TEST_P(ForgedSegment, EndsTheGenerationWithCauseAndPeer) {
  SimSwarm swarm(Quantised());
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  // So that something is asked for again.
  const storage::BoundaryEnd end{kSimRun, 0, BoundarySide::kReceiver};
  ASSERT_TRUE(swarm.at(1, 0).store_->Drop(end, std::vector<SegmentId>{{70}}, UINT64_MAX).ok());
  PeerId victim;
  bool done = false;
  swarm.network_.tap = [&](const PeerId&, const PeerId& to, Frame* frame) {
    if (done || frame->kind != GetParam().kind) return 1;
    done = true;
    victim = to;
    return GetParam().change(frame);
  };
  EXPECT_FALSE(swarm.TrainTo(9));
  ASSERT_TRUE(done);
  const auto& failure = swarm.at(victim == swarm.at(0, 0).id_ ? 0 : 1, 0).failure_;
  ASSERT_TRUE(failure.has_value());
  EXPECT_NE(failure->status.message().find(GetParam().expected), std::string::npos)
      << failure->status.ToString();
}

INSTANTIATE_TEST_SUITE_P(Kinds, ForgedSegment,
                         testing::Values(Forgery{"Number", FrameKind::kActivation,
                                                 [](Frame* frame) {
                                                   frame->tag = kSegments;
                                                   return 1;
                                                 },
                                                 "none with number 4"},
                                         Forgery{"NumberOfAGradient", FrameKind::kGradient,
                                                 [](Frame* frame) {
                                                   frame->tag = UINT64_MAX;
                                                   return 1;
                                                 },
                                                 "none with number 18446744073709551615"},
                                         Forgery{"NumberOfARequest", FrameKind::kResend,
                                                 [](Frame* frame) {
                                                   frame->tag = 9;
                                                   return 1;
                                                 },
                                                 "none with number 9"},
                                         Forgery{"Twice", FrameKind::kActivation,
                                                 [](Frame*) { return 2; }, "a second time"},
                                         Forgery{"GradientTwice", FrameKind::kGradient,
                                                 [](Frame*) { return 2; }, "a second time"},
                                         Forgery{"AllTokens", FrameKind::kActivation,
                                                 [](Frame* frame) {
                                                   frame->tokens *= kSegments;
                                                   return 1;
                                                 },
                                                 "values instead of 2 x 8"}),
                         [](const auto& forgery) { return std::string(forgery.param.name); });

}  // namespace
}  // namespace shoal::pipeline
