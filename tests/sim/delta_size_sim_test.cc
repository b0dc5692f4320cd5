// What a run is said to keep before it starts, against what its stores then hold.

#include <gtest/gtest.h>

#include <string>

#include "scheduler/server/run_artefacts.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using storage::BoundarySide;
using test_support::ImagesOf;
using test_support::Place;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

std::uint64_t BytesAt(SimSwarm& swarm, std::uint32_t stage, std::uint32_t pipeline,
                      const storage::BoundaryEnd& end) {
  std::uint64_t bytes = 0;
  for (const auto& [id, image] : ImagesOf(swarm.at(stage, pipeline), end)) bytes += image.size();
  return bytes;
}

constexpr char kGradientsWithM[] =
    "aqsgd:delta=dithered:step=0.5/of=values,first_visit=dithered:step=0.5";

struct Case {
  const char* forward;
  const char* backward;
  std::uint32_t row_tokens;
  std::uint32_t segments;
};

class AnnouncedSize : public testing::TestWithParam<Case> {};

// Three pipelines share four micro-batches, so that the first one has half of the samples.
TEST_P(AnnouncedSize, IsWhatTheStoresHoldAfterAnEpoch) {
  SwarmOptions options = test_support::OptionsOf(GetParam().forward, GetParam().backward, 3, 3);
  options.row_tokens = GetParam().row_tokens;
  options.rows = 16;
  options.micro_batches = 4;
  options.steps_per_epoch = 1;
  SimSwarm swarm(options);

  scheduler::RunConfig config;
  config.forward = options.forward;
  config.backward = options.backward;
  config.stages = options.stages;
  config.pipelines = options.pipelines;
  config.micro_batches = options.micro_batches;
  config.micro_batch_rows = options.rows;
  model::ModelSpec model;
  model.hidden = swarm.shape_.hidden;
  dataset::DataInfo data;
  data.row_tokens = options.row_tokens;
  data.train_rows = 4ull * 16;
  const storage::DeltaSize announced = scheduler::DeltaSizeOf(config, model, data);

  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(options.steps_per_epoch)) << Why(swarm);
  std::uint64_t all = 0;
  for (const auto& peer : swarm.peers()) all += peer->store_->stats().bytes;
  EXPECT_EQ(announced.all_bytes, all);
  EXPECT_EQ(announced.middle_bytes, swarm.at(1, 0).store_->stats().bytes);
  EXPECT_EQ(announced.boundary_bytes,
            BytesAt(swarm, 0, 0, Place(0, BoundarySide::kSender)) +
                BytesAt(swarm, 0, 0, Place(0, BoundarySide::kGradientReceiver)));
  EXPECT_EQ(announced.boundary_bytes,
            BytesAt(swarm, 2, 0, Place(1, BoundarySide::kReceiver)) +
                BytesAt(swarm, 2, 0, Place(1, BoundarySide::kGradientSender)));
  EXPECT_EQ(announced.residual_bytes, BytesAt(swarm, 1, 0, Place(0, BoundarySide::kResidual)));
  const bool activations = options.forward.starts_with("aqsgd");
  const BoundarySide side = activations                    ? BoundarySide::kReceiver
                            : announced.boundary_bytes > 0 ? BoundarySide::kGradientSender
                                                           : BoundarySide::kResidual;
  // What is printed before a run names what keeps m.
  const std::string said = scheduler::DescribeDeltaSize(config, announced);
  EXPECT_EQ(said.find("m of " + config.forward) == 0, activations) << said;
  EXPECT_EQ(said.find(config.backward) != std::string::npos,
            options.backward.find("aqsgd") == 0 || announced.residual_bytes > 0)
      << said;
  EXPECT_EQ(ImagesOf(swarm.at(1, 0), Place(0, side)).size(), 32u * GetParam().segments);
}

// 16 rows of 8 channels: 1 MiB of fp32 is 2048 tokens.
INSTANTIATE_TEST_SUITE_P(
    Codecs, AnnouncedSize,
    testing::Values(Case{"aqsgd:bits=4", "direct:bits=8", 4096, 2},
                    Case{"aqsgd:bits=4,m=8", "direct:bits=8", 8192, 4},
                    Case{"aqsgd:bits=4,m=4", "direct:bits=8", 4096, 2},
                    Case{"aqsgd:bits=4,m=2", "direct:bits=8", 2051, 1},
                    Case{"aqsgd:bits=4,m=8", "direct:bits=2,feedback=on", 2051, 1},
                    Case{"raw:dtype=fp32", "direct:bits=2,feedback=on", 4096, 2},
                    Case{"aqsgd:bits=4", kGradientsWithM, 4096, 2},
                    Case{"raw:dtype=fp32", kGradientsWithM, 4096, 2},
                    Case{"raw:dtype=fp32", "topk:ratio=0.5,bits=8,feedback=on", 4096, 1}));

}  // namespace
}  // namespace shoal::pipeline
