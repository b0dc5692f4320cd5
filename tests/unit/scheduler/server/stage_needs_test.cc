// Memory of stages, and cuts that fit, against all cuts there are.

#include "scheduler/server/stage_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "model/families/adapter_config.h"
#include "model/families/family.h"

namespace shoal::scheduler {
namespace {

using testing::HasSubstr;
using testing::Not;

model::ModelSpec Model() {
  return model::ParseModelSpec(
             R"({"model_type": "llama", "vocab_size": 500, "hidden_size": 32,
                 "num_hidden_layers": 7, "num_attention_heads": 4, "intermediate_size": 96,
                 "max_position_embeddings": 64, "tie_word_embeddings": false})",
             "the test's model")
      .value();
}

RunConfig Config() {
  RunConfig config;
  config.compute = "fp32";
  config.micro_batches = 6;
  config.micro_batch_rows = 2;
  config.row_tokens = 32;
  config.stages = 3;
  config.stage_first_layers = {0, 2, 5, 7};
  return config;
}

using Cuts = std::vector<std::uint32_t>;

void EveryCut(std::uint32_t layers, std::uint32_t stages, Cuts* cuts,
              const std::function<void(const Cuts&)>& visit) {
  if (cuts->size() == stages) {
    Cuts whole = *cuts;
    whole.push_back(layers);
    return visit(whole);
  }
  for (std::uint32_t first = cuts->back() + 1; first < layers; ++first) {
    cuts->push_back(first);
    EveryCut(layers, stages, cuts, visit);
    cuts->pop_back();
  }
}

std::uint64_t Largest(const StageMemory& memory, const Cuts& cuts) {
  std::uint64_t largest = 0;
  for (const StageNeeds& need : memory.OfCuts(cuts)) largest = std::max(largest, need.all());
  return largest;
}

TEST(StageMemory, FindsCutsWhereThereAreSome) {
  const model::ModelSpec model = Model();
  const StageMemory memory = StageMemory::Make(Config(), model, {}).value();
  for (std::uint32_t stages = 1; stages <= 7; ++stages) {
    std::uint64_t least = ~std::uint64_t{0};
    Cuts cuts = {0};
    EveryCut(7, stages, &cuts,
             [&](const Cuts& cut) { least = std::min(least, Largest(memory, cut)); });
    const auto found = memory.CutsWithin(least, stages);
    ASSERT_TRUE(found) << stages;
    EXPECT_EQ(found->size(), stages + 1U);
    EXPECT_EQ(Largest(memory, *found), least) << stages;
    EXPECT_FALSE(memory.CutsWithin(least - 1, stages)) << stages;
  }
  EXPECT_FALSE(memory.CutsWithin(~std::uint64_t{0}, 8));
}

TEST(StageMemory, CountsWhatAStageHolds) {
  model::ModelSpec model = Model();
  const RunConfig config = Config();
  const StageMemory all = StageMemory::Make(config, model, {}).value();
  // Weights, gradients and two moments, in fp32.
  EXPECT_EQ(all.Of(0, 2, 0, 3).trained, 16 * model.ParametersOf(0, 2, true, false));
  EXPECT_EQ(all.Of(5, 7, 2, 3).trained, 16 * model.ParametersOf(5, 7, false, true));
  EXPECT_EQ(all.Of(0, 2, 0, 3).in_flight, 3U);
  EXPECT_EQ(all.Of(5, 7, 2, 3).in_flight, 1U);
  model::AdapterConfig adapter;
  adapter.rank = 2;
  ASSERT_TRUE(model::Adapt(adapter, &model).ok());
  const StageMemory adapted =
      StageMemory::Make(config, model, {1000, 1, 2, 4, 8, 16, 32, 64, 500}).value();
  EXPECT_EQ(adapted.Of(0, 2, 0, 3).base, 1003U);
  EXPECT_EQ(adapted.Of(2, 5, 1, 3).base, 28U);
  EXPECT_EQ(adapted.Of(5, 7, 2, 3).base, 596U);
  EXPECT_EQ(adapted.Of(2, 5, 1, 3).trained, 16 * model.TrainedParametersOf(2, 5, false, false));
  EXPECT_LT(20 * adapted.Of(0, 2, 0, 3).trained, all.Of(0, 2, 0, 3).trained * 3);
}

// A peer with a GPU keeps a bf16 copy of the weights, one without wider activations.
TEST(StageMemory, WhereDevicesDecideEachItemIsTheLarger) {
  RunConfig config = Config();
  const auto needs = [&](const char* compute) {
    config.compute = compute;
    return StageMemory::Make(config, Model(), {}).value().Of(5, 7, 2, 3);
  };
  const StageNeeds full = needs("fp32"), half = needs("bf16"), any = needs("auto");
  EXPECT_EQ(half.trained * 16, full.trained * 18);
  EXPECT_LT(half.micro_batch, full.micro_batch);
  EXPECT_EQ(any.trained, half.trained);
  EXPECT_EQ(any.micro_batch, full.micro_batch);
}

TEST(StageMemory, EveryStageHoldsWhatAllStagesShare) {
  const auto parsed = model::ParseModelSpec(
      R"({"model_type":"deberta-v2","hidden_size":16,"intermediate_size":24,"vocab_size":50,
          "num_hidden_layers":3,"num_attention_heads":4,"max_position_embeddings":32,
          "relative_attention":true,"pos_att_type":"c2p|p2c","share_att_key":true})",
      "c");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const StageMemory memory = StageMemory::Make(Config(), *parsed, {1000, 1, 2, 4, 8, 16}).value();
  const std::uint64_t table = 64 * 16;
  EXPECT_EQ(memory.Of(1, 2, 1, 3).base, 1004U);
  EXPECT_EQ(memory.Of(0, 3, 0, 1).base, 1031U);
  EXPECT_EQ(memory.Of(0, 1, 0, 3).trained + memory.Of(1, 3, 1, 3).trained,
            memory.Of(0, 3, 0, 1).trained + 16 * table);
}

TEST(StageMemory, IsSaidWithWhatWouldFit) {
  const RunConfig config = Config();
  const StageMemory memory = StageMemory::Make(config, Model(), {}).value();
  const std::uint64_t most = Largest(memory, config.stage_first_layers);
  EXPECT_THAT(DescribeStageMemory(config, memory, 0), Not(HasSubstr("more than")));
  EXPECT_THAT(DescribeStageMemory(config, memory, most), Not(HasSubstr("more than")));
  EXPECT_THAT(DescribeStageMemory(config, memory, most - 1),
              testing::AllOf(HasSubstr("more than a peer has"), HasSubstr("stages and cuts = [")));
  EXPECT_THAT(DescribeStageMemory(config, memory, 1000), HasSubstr("no cut into stages fits"));
}

}  // namespace
}  // namespace shoal::scheduler
