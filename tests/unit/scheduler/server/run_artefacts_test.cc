#include "scheduler/server/run_artefacts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "dataset/prepare/prepare_data.h"
#include "model/families/stage_memory.h"
#include "model/families/trained_part.h"
#include "scheduler/plan/placement.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/scheduler/server/zero_model.h"

namespace shoal::scheduler {
namespace {

class RunArtefactsTest : public ::testing::Test {
 protected:
  RunArtefactsTest() {
    WriteModel(folder_ / "model");
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 400; ++i) text << "The fish number " << i << " swims.\n";
    text.close();
    dataset::PrepareOptions options;
    options.tokenizer_directory = folder_ / "model";
    options.text_files = {folder_ / "text.txt"};
    options.row_tokens = 16;
    options.output = folder_ / "data.shoal";
    options.threads = 1;
    const auto report = dataset::PrepareData(options);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    config_.model = folder_ / "model";
    config_.data = folder_ / "data.shoal";
    config_.directory = folder_ / "run";
    config_.stages = 2;
    config_.micro_batches = 2;
    config_.micro_batch_rows = 64;
  }
  RunArtefacts Make() {
    auto content = storage::OpenFileContentStore(folder_ / "content");
    EXPECT_TRUE(content.ok()) << content.status().ToString();
    auto made = MakeRunArtefacts(content->get(), &config_);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *std::move(made) : RunArtefacts();
  }
  std::uint64_t MicroBatch(const RunArtefacts& artefacts, std::uint32_t stage) const {
    const auto& first = config_.stage_first_layers;
    return model::KeptBytes(artefacts.model,
                            {first[stage], first[stage + 1], false, false, config_.recompute},
                            {64, 16});
  }

  const test_support::TemporaryFolder folder_;
  RunConfig config_;
};

// A peer that holds the weights alone could not run a single micro-batch.
TEST_F(RunArtefactsTest, AStageNeedsItsStateAndOneMicroBatch) {
  config_.compute = "fp32";
  const RunArtefacts artefacts = Make();
  const auto& first = config_.stage_first_layers;
  ASSERT_EQ(config_.stage_bytes.size(), 2U);
  for (const std::uint32_t s : {0U, 1U}) {
    const std::uint64_t micro_batch = MicroBatch(artefacts, s);
    EXPECT_GT(micro_batch, 1U << 20) << "as much as a peer may lack";
    EXPECT_EQ(config_.micro_batch_bytes[s], micro_batch);
    // Weights, gradients and two moments, in fp32.
    const std::uint64_t state =
        16 * artefacts.model.ParametersOf(first[s], first[s + 1], s == 0, s == 1);
    EXPECT_EQ(config_.stage_bytes[s], state + micro_batch);
  }
  const PlacementRun run{2, 1, config_.stage_bytes};
  PeerId a, b;
  a.key[0] = 1;
  b.key[0] = 2;
  std::vector<PlacementPeer> peers = {{a, 0, config_.stage_bytes[0]},
                                      {b, 1, config_.stage_bytes[1]}};
  EXPECT_TRUE(Place(peers, {}, run, nullptr));
  peers[1].memory_bytes -= config_.micro_batch_bytes[1];
  EXPECT_FALSE(Place(peers, {}, run, nullptr));
}

TEST_F(RunArtefactsTest, ABaseOfFewerBitsAndRecomputeNeedLess) {
  config_.compute = "fp32";
  config_.adapter_kind = "lora";
  config_.adapter_rank = 4;
  RunArtefacts artefacts = Make();
  const auto base = [&](std::uint32_t s) {
    std::uint64_t bytes = 0;
    for (std::uint32_t layer = config_.stage_first_layers[s];
         layer < config_.stage_first_layers[s + 1]; ++layer) {
      bytes +=
          artefacts.initial.at("layer." + std::to_string(layer) + std::string(model::kBaseSuffix))
              .size();
    }
    for (const std::string part : {"embedding", "head"}) {
      const auto found = artefacts.initial.find(part + std::string(model::kBaseSuffix));
      const bool here = (part == "embedding") == (s == 0);
      if (here && found != artefacts.initial.end()) bytes += found->second.size();
    }
    return bytes;
  };
  const auto expect = [&] {
    for (const std::uint32_t s : {0U, 1U}) {
      const auto& first = config_.stage_first_layers;
      const std::uint64_t trained =
          16 * artefacts.model.TrainedParametersOf(first[s], first[s + 1], s == 0, s == 1);
      EXPECT_EQ(config_.stage_bytes[s], base(s) + trained + MicroBatch(artefacts, s)) << s;
    }
  };
  expect();
  const std::vector<std::uint64_t> before = config_.stage_bytes;
  config_.base = "nf4";
  artefacts = Make();
  expect();
  EXPECT_LT(config_.stage_bytes[1], before[1]);
  const std::vector<std::uint64_t> quantised = config_.stage_bytes;
  config_.recompute = true;
  artefacts = Make();
  expect();
  EXPECT_LT(config_.stage_bytes[1], quantised[1]);
}

}  // namespace
}  // namespace shoal::scheduler
