// m stays bitwise equal on both ends of every boundary through 100 steps. Meanwhile records are
// lost, evicted and damaged on either end, and the swarm is restarted, also from an older step.

#include <gtest/gtest.h>

#include <map>
#include <string_view>
#include <vector>

#include "common/checksum.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using compression::DeltaMode;
using test_support::ImagesOf;
using test_support::Place;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kEpoch = 3;  // steps
constexpr std::uint64_t kSteps = 100;

// m of a direction at the lower and the upper end of a boundary.
using Ends = std::pair<storage::BoundarySide, storage::BoundarySide>;
constexpr Ends kActivations{storage::BoundarySide::kSender, storage::BoundarySide::kReceiver};
constexpr Ends kGradients{storage::BoundarySide::kGradientReceiver,
                          storage::BoundarySide::kGradientSender};

// How many images both ends have; all must be equal.
std::size_t CompareEnds(SimSwarm& swarm, const Ends& ends = kActivations) {
  swarm.Run(std::chrono::milliseconds(100));  // evictions are on their way
  std::size_t compared = 0;
  for (std::uint32_t p = 0; p < swarm.options_.pipelines; ++p) {
    for (std::uint32_t b = 0; b + 1 < swarm.options_.stages; ++b) {
      const auto ours = ImagesOf(swarm.at(b, p), Place(b, ends.first));
      const auto theirs = ImagesOf(swarm.at(b + 1, p), Place(b, ends.second));
      EXPECT_TRUE(ours == theirs) << "pipeline " << p << " boundary " << b << ": " << ours.size()
                                  << " and " << theirs.size() << " images";
      compared += ours.size();
    }
  }
  return compared;
}

// Loses a record, or puts another version or other values in its place.
void Spoil(SimSwarm& swarm, SimSwarm::Peer& peer, const storage::BoundaryEnd& boundary_end,
           std::uint32_t segments) {
  const SegmentId sample{swarm.random_() % (36 * segments)};
  auto record = peer.store_->Get(boundary_end, sample);
  ASSERT_TRUE(record.ok());
  const unsigned kind = swarm.random_() % 3;
  if (!record->has_value() || kind == 0) {
    ASSERT_TRUE(peer.store_->Drop(boundary_end, std::vector{sample}, UINT64_MAX).ok());
    return;
  }
  storage::DeltaRecord wrong = std::move(**record);
  if (kind == 1) {
    ++wrong.version;
  } else {
    // The last value's code or half, in place: a valid image that nobody agreed on.
    wrong.image.data()[wrong.image.size() - 2] ^= std::byte{1};
    wrong.checksum = Checksum64(wrong.image.bytes());
  }
  std::vector<storage::DeltaUpdate> updates;
  updates.push_back({sample, std::move(wrong)});
  std::vector<SegmentId> evicted;
  ASSERT_TRUE(peer.store_->Commit(boundary_end, updates, &evicted).ok());
}

void SpoilSome(SimSwarm& swarm, std::uint32_t segments) {
  for (const auto& peer : swarm.peers()) {
    for (std::uint32_t b = 0; b + 1 < swarm.options_.stages; ++b) {
      if (peer->stage_ != b && peer->stage_ != b + 1) continue;
      for (const Ends& ends : {kActivations, kGradients}) {
        if (ends == kGradients && !swarm.options_.backward.starts_with("aqsgd")) continue;
        const auto side = peer->stage_ == b ? ends.first : ends.second;
        for (unsigned i = swarm.random_() % 4; i > 0; --i) {
          Spoil(swarm, *peer, Place(b, side), segments);
        }
      }
    }
  }
}

struct Scenario {
  const char* name;
  const char* forward;
  std::uint64_t store_bytes_max = 0;
  std::uint32_t segments = 1;
  const char* backward = "direct:bits=8";
};
constexpr char kGradientsWithM[] =
    "aqsgd:delta=dithered:step=0.5/of=values,first_visit=dithered:step=0.5";

class SameM : public testing::TestWithParam<Scenario> {};

SwarmOptions OptionsOf(const Scenario& scenario) {
  SwarmOptions options;
  options.stages = 3;
  options.pipelines = 2;
  options.forward = scenario.forward;
  options.backward = scenario.backward;
  options.store_bytes_max = scenario.store_bytes_max;
  if (scenario.segments > 1) {
    options.row_tokens = scenario.segments == 2 ? 6 : 8;
    options.segment_bytes_min = 1;
  }
  options.steps_per_epoch = kEpoch;
  options.seed = 20 + static_cast<unsigned>(std::string_view(scenario.forward).size());
  return options;
}

TEST_P(SameM, OnBothEndsThroughLossesEvictionsAndRestarts) {
  const SwarmOptions options = OptionsOf(GetParam());
  const bool gradients = options.backward.starts_with("aqsgd");
  SCOPED_TRACE("seed " + std::to_string(options.seed));
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  std::uint64_t step = 0;
  std::uint64_t trained = 0;
  while (trained < kSteps) {
    ASSERT_TRUE(swarm.TrainTo(step + kEpoch)) << Why(swarm);
    step += kEpoch;
    const auto weights = swarm.SaveWeights();
    const unsigned accident = swarm.random_() % 3;
    if (accident == 0) SpoilSome(swarm, GetParam().segments);
    if (accident == 1) {
      // Back to the weights of this step, from later ones.
      ASSERT_TRUE(swarm.TrainTo(step + 1 + swarm.random_() % 3)) << Why(swarm);
      swarm.Close();
      swarm.Run(std::chrono::seconds(1));
      swarm.LoadWeights(weights);
      ASSERT_TRUE(swarm.Open(step)) << Why(swarm);
    }
    if (accident == 2) {
      swarm.Close();
      swarm.Run(std::chrono::seconds(1));
      SpoilSome(swarm, GetParam().segments);
      ASSERT_TRUE(swarm.Open(step)) << Why(swarm);
    }
    // Within an epoch every sample is visited, and what differs is found and sent in full.
    ASSERT_TRUE(swarm.TrainTo(step + kEpoch)) << Why(swarm);
    step += kEpoch;
    trained += 2 * kEpoch;
    swarm.checksum_mismatches_.clear();
    const std::size_t compared = CompareEnds(swarm);
    if (options.store_bytes_max == 0) {
      const bool activations = options.forward.starts_with("aqsgd");
      EXPECT_EQ(compared, activations ? 2u * 36 * GetParam().segments : 0u) << "step " << step;
    } else {
      EXPECT_GT(compared, 0u);
    }
    const std::size_t of_gradients = CompareEnds(swarm, kGradients);
    if (options.store_bytes_max == 0) {
      EXPECT_EQ(of_gradients, gradients ? 2u * 36 * GetParam().segments : 0u) << "step " << step;
    }
    ASSERT_TRUE(swarm.TrainTo(step + 1)) << Why(swarm);
    ++step;
    // An eviction is announced after the step that both ends compare.
    if (options.store_bytes_max == 0) {
      EXPECT_TRUE(swarm.checksum_mismatches_.empty()) << "step " << step;
    }
    CompareEnds(swarm);
    CompareEnds(swarm, kGradients);
  }
  std::uint64_t hits = 0;
  std::uint64_t evicted = 0;
  for (const auto& peer : swarm.peers()) {
    const RunnerStats stats = peer->runner_->stats();
    hits += stats.delta_hits;
    evicted += peer->store_->stats().evicted;
  }
  EXPECT_GT(hits, 0u);
  if (options.store_bytes_max != 0) {
    EXPECT_GT(evicted, 0u);
  }
}

// Learning rates that come and go take the links through all modes and back.
class DeltaModes : public testing::TestWithParam<std::uint64_t> {};

TEST_P(DeltaModes, BothEndsHoldTheSameMInEach) {
  SwarmOptions options;
  options.row_tokens = 8;
  options.segment_bytes_min = GetParam();
  options.stages = 2;
  options.forward = "aqsgd:bits=2,m=8,first_visit=tiles:bits=4";
  options.backward = "direct:bits=8";
  options.steps_per_epoch = kEpoch;
  options.learning_rate = [](std::uint64_t step) { return step / 20 % 2 == 0 ? 0.05 : 3.0; };
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  std::vector<DeltaMode> modes;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    const DeltaMode mode = *swarm.at(0, 0).runner_->stats().boundaries.front().mode;
    if (modes.empty() || modes.back() != mode) modes.push_back(mode);
    CompareEnds(swarm);
  }
  EXPECT_EQ(modes, (std::vector{DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull,
                                DeltaMode::kWideDelta, DeltaMode::kDelta}));
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

INSTANTIATE_TEST_SUITE_P(WholeAndInSegments, DeltaModes, testing::Values(1 << 20, 1));

INSTANTIATE_TEST_SUITE_P(
    Codecs, SameM,
    testing::Values(
        Scenario{"TwoBits", "aqsgd:bits=2"}, Scenario{"Evictions", "aqsgd:bits=4", 1500},
        Scenario{"MInEightBits", "aqsgd:bits=3,m=8"}, Scenario{"MInFourBits", "aqsgd:bits=3,m=4"},
        Scenario{"MInTwoBits", "aqsgd:bits=2,m=2"}, Scenario{"Segments", "aqsgd:bits=3", 0, 4},
        Scenario{"TwoSegmentsOfCodes", "aqsgd+rans:bits=3,m=8", 0, 2},
        Scenario{"EvictedSegments", "aqsgd:bits=4", 4000, 4},
        Scenario{"EvictionsOfCodes", "aqsgd:bits=2,m=4,first_visit=tiles:bits=4", 900},
        Scenario{"Tiles", "aqsgd:delta=tiles:bits=2,first_visit=tiles:bits=4"},
        Scenario{"TopK", "aqsgd:delta=topk:ratio=0.2/bits=8,first_visit=topk:ratio=0.5/bits=8"},
        Scenario{"Dithered", "aqsgd:delta=dithered:step=1,first_visit=direct:bits=8,m=8"},
        Scenario{"LowRank", "aqsgd:delta=lowrank:energy=0.9/channels=on"},
        Scenario{"Gradients", "aqsgd:bits=3", 0, 1, kGradientsWithM},
        Scenario{"GradientsAlone", "direct:bits=8", 0, 1, kGradientsWithM},
        Scenario{"GradientsInSegments", "aqsgd:bits=3", 0, 4, kGradientsWithM},
        Scenario{"EvictedGradients", "aqsgd:bits=4", 3000, 1, kGradientsWithM},
        Scenario{"Channel", "aqsgd+rans:bits=4,bucket=channel,m=8"}),
    [](const auto& scenario) { return std::string(scenario.param.name); });

}  // namespace
}  // namespace shoal::pipeline
