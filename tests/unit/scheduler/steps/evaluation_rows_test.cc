#include "scheduler/steps/evaluation_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::scheduler {
namespace {

RunConfig Config() {
  RunConfig config;
  config.steps = 250;
  config.pipelines = 2;
  config.micro_batches = 4;
  config.micro_batch_rows = 3;
  config.train_rows = 1000;
  config.validation_rows = 100;
  return config;
}

TEST(EvaluationRowsTest, AsManyAsAStepTrainsAtEqualDistances) {
  const std::vector<SampleId> rows = EvaluationRows(Config());
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows.front().value, 1000u);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::uint64_t distance = rows[i].value - rows[i - 1].value;
    EXPECT_TRUE(distance == 8 || distance == 9) << i << ": " << distance;
  }
  EXPECT_LT(rows.back().value, 1100u);
}

TEST(EvaluationRowsTest, AsManyAsWantedAndThereAreEachOnce) {
  RunConfig config = Config();
  config.evaluate_rows = 1000;
  const std::vector<SampleId> rows = EvaluationRows(config);
  ASSERT_EQ(rows.size(), 100u);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].value, 1000 + i);
  config.evaluate_rows = 1;
  EXPECT_EQ(EvaluationRows(config), (std::vector<SampleId>{{1000}}));
  config.validation_rows = 0;
  EXPECT_TRUE(EvaluationRows(config).empty());
}

TEST(EvaluationRowsTest, LargeDataDoesNotOverflow) {
  RunConfig config = Config();
  config.validation_rows = (1ull << 32) - 1;
  config.evaluate_rows = 65536;
  const std::vector<SampleId> rows = EvaluationRows(config);
  ASSERT_EQ(rows.size(), 65536u);
  EXPECT_LT(rows.back().value, 1000 + config.validation_rows);
  EXPECT_GT(rows.back().value, config.validation_rows - 65536);
}

TEST(EvaluationRowsTest, NotWithoutWeightsOrWhereNobodyHoldsThem) {
  RunConfig config = Config();
  config.without_weights = true;
  EXPECT_TRUE(EvaluationRows(config).empty());
  config = Config();
  config.replica_method = "qsdp:shard_parameters=true";
  EXPECT_TRUE(EvaluationRows(config).empty());
  config.pipelines = 1;
  EXPECT_FALSE(EvaluationRows(config).empty()) << "one pipeline has nobody to share with";
  config.evaluate_every = 0;
  EXPECT_TRUE(EvaluationRows(config).empty());
}

TEST(EvaluationRowsTest, BeforeTheFirstStepEverySoManyAndTheLast) {
  RunConfig config = Config();
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; step < config.steps; ++step) {
    if (EvaluatesBefore(config, step)) steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{0, 100, 200, 249}));
  config.evaluate_every = 0;
  EXPECT_FALSE(EvaluatesBefore(config, 0));
  EXPECT_FALSE(EvaluatesBefore(config, 249));
}

}  // namespace
}  // namespace shoal::scheduler
