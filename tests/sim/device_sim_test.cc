// Stages whose values lie on a device, whose memory the host must not touch (fake_device.h): alone,
// and as one end of a boundary whose other end is on the host, they train as stages of the host do,
// to the bit.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::ImagesOf;
using test_support::Place;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kSteps = 9;  // three visits of every sample

struct Codecs {
  const char* forward;
  const char* backward;
  std::size_t on_host;  // of them, that have no form on a device
};

SwarmOptions OptionsOf(const Codecs& codecs) {
  SwarmOptions options;
  options.stages = 4;
  options.pipelines = 2;
  options.row_tokens = 6;
  options.forward = codecs.forward;
  options.backward = codecs.backward;
  options.evaluation = [](std::uint64_t step, std::uint32_t) {
    std::vector<MicroBatchPlan> plan;
    if (step % 3 == 1) plan.push_back({0, {SampleId{step}, SampleId{step + 1}}});
    return plan;
  };
  return options;
}

// What a run leaves.
struct Trained {
  std::vector<std::vector<float>> weights;
  std::vector<double> losses;
  std::vector<double> held_out;
  std::vector<std::size_t> on_host;  // codecs, by stage of the first pipeline
};

Trained Train(const SwarmOptions& options) {
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  Trained trained{swarm.SaveWeights(), swarm.losses_, {}, {}};
  for (const auto& [step, loss] : swarm.held_out_) trained.held_out.push_back(loss.sum);
  for (std::uint32_t stage = 0; stage < options.stages; ++stage) {
    trained.on_host.push_back(swarm.at(stage, 0).runner_->stats().on_host.size());
  }
  EXPECT_EQ(swarm.checksums_compared_ > 0, options.forward.starts_with("aqsgd"));
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  for (std::uint32_t b = 0; b + 1 < options.stages; ++b) {
    EXPECT_EQ(ImagesOf(swarm.at(b, 0), Place(b, storage::BoundarySide::kSender)),
              ImagesOf(swarm.at(b + 1, 0), Place(b, storage::BoundarySide::kReceiver)))
        << "boundary " << b;
  }
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  return trained;
}

class OnDevice : public testing::TestWithParam<Codecs> {};

TEST_P(OnDevice, TrainingIsThatOfTheHostToTheBit) {
  SwarmOptions options = OptionsOf(GetParam());
  const Trained host = Train(options);
  EXPECT_EQ(host.on_host, std::vector<std::size_t>(4, 0));
  // Device and host; host and device; both on a device.
  for (const std::vector<bool>& where : {std::vector<bool>{true, false, true, true},
                                         {false, true, true, false},
                                         {true, true, true, true}}) {
    options.on_device = [&](std::uint32_t stage, std::uint32_t) { return where[stage]; };
    const Trained there = Train(options);
    EXPECT_EQ(there.weights, host.weights);
    EXPECT_EQ(there.losses, host.losses);
    EXPECT_EQ(there.held_out, host.held_out);
    EXPECT_FALSE(there.held_out.empty());
    for (std::uint32_t stage = 0; stage < options.stages; ++stage) {
      EXPECT_EQ(there.on_host[stage], where[stage] ? GetParam().on_host : 0U) << stage;
    }
  }
}

TEST_P(OnDevice, ALostGradientIsSkippedAsOnTheHost) {
  SwarmOptions options = OptionsOf(GetParam());
  const auto train = [&] {
    SimSwarm swarm(options);
    for (std::uint32_t pipeline = 0; pipeline < options.pipelines; ++pipeline) {
      swarm.at(2, pipeline).tiny().SetFaults([](MicroBatchId id) {
        return id.step == 4 && id.index == 1 ? test_support::TinyStage::Fault::kInput
                                             : test_support::TinyStage::Fault::kNone;
      });
    }
    EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
    EXPECT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
    EXPECT_EQ(swarm.skipped_, std::vector<std::uint64_t>{4});
    return swarm.SaveWeights();
  };
  const auto host = train();
  options.on_device = [](std::uint32_t, std::uint32_t) { return true; };
  EXPECT_EQ(train(), host);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, OnDevice,
    testing::Values(Codecs{"raw:dtype=fp32", "raw:dtype=fp32", 0},
                    Codecs{"aqsgd:bits=3", "direct:bits=6", 0},
                    Codecs{"aqsgd:delta=dithered:error=0.3,first_visit=dithered:error=0.05",
                           "dithered:step=0.5", 0},
                    Codecs{"aqsgd:delta=dithered:step=0.6/klt=4/channels=on,"
                           "first_visit=dithered:step=0.1/klt=4/channels=on",
                           "dithered:step=0.4,klt=4,channels=on", 0},
                    Codecs{"aqsgd:bits=4", "direct:bits=4,feedback=on", 1},
                    Codecs{"aqsgd:bits=4", "lowrank:rank=1,epilogue=false,lazy=auto", 1}),
    [](const auto& test) { return "Pair" + std::to_string(test.index); });

struct Exchange {
  const char* method;
  bool on_host;
};
class ExchangeOnDevice : public testing::TestWithParam<Exchange> {};

TEST_P(ExchangeOnDevice, GivesTheWeightsOfTheHostToTheBit) {
  SwarmOptions options = OptionsOf({"aqsgd:bits=4", "direct:bits=6", 0});
  options.pipelines = 3;
  options.adamw = true;
  options.replica = GetParam().method;
  const Trained host = Train(options);
  // All members, and one of each group with others on the host.
  for (const std::uint32_t every : {1U, 3U}) {
    options.on_device = [every](std::uint32_t stage, std::uint32_t pipeline) {
      return (stage + pipeline) % every == 0;
    };
    const Trained there = Train(options);
    EXPECT_EQ(there.weights, host.weights);
    EXPECT_EQ(there.losses, host.losses);
    for (std::uint32_t stage = 0; stage < options.stages; ++stage) {
      EXPECT_EQ(there.on_host[stage], stage % every == 0 && GetParam().on_host ? 1U : 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, ExchangeOnDevice,
    testing::Values(Exchange{"average", false}, Exchange{"average:dtype=bf16", false},
                    Exchange{"average:codec=dithered:step=0.5", false},
                    Exchange{"average:codec=direct:bits=4/bucket=64", false},
                    Exchange{"average:codec=direct:bits=8/bucket=64,feedback=false", false},
                    Exchange{"powersgd:rank=1,start=3", true},
                    Exchange{"qadam:bits=4,bucket=64,start=3", true}),
    [](const auto& test) { return "Method" + std::to_string(test.index); });

TEST(OnDeviceSimTest, SegmentsAndResendsWork) {
  SwarmOptions options = OptionsOf({"aqsgd:bits=4", "direct:bits=6", 0});
  options.segment_bytes_min = 1;
  const auto train = [&] {
    SimSwarm swarm(options);
    EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
    EXPECT_TRUE(swarm.TrainTo(5)) << Why(swarm);
    // A receiver that lost what it had asks for it again.
    auto& store = *swarm.at(1, 0).store_;
    const storage::BoundaryEnd end = Place(0, storage::BoundarySide::kReceiver);
    std::vector<SegmentId> all;
    const auto inventory = store.Inventory(end).value();
    for (const auto& entry : inventory) all.push_back(entry.segment);
    EXPECT_GT(all.size(), 6U);
    EXPECT_TRUE(store.Drop(end, all, UINT64_MAX).ok());
    EXPECT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
    EXPECT_GT(swarm.at(1, 0).runner_->stats().resends, 0U);
    return swarm.SaveWeights();
  };
  const auto host = train();
  options.on_device = [](std::uint32_t stage, std::uint32_t) { return stage != 2; };
  EXPECT_EQ(train(), host);
}

}  // namespace
}  // namespace shoal::pipeline
