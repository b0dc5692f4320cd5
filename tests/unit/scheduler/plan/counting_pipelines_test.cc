#include "scheduler/plan/counting_pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;

TEST(CountingPipelines, KnowsThemByStep) {
  CountingPipelines counting;
  counting.Begin(5, {}, {1});
  counting.From(8, {0, 1});
  EXPECT_THAT(counting.At(5), ElementsAre(1));
  EXPECT_THAT(counting.At(7), ElementsAre(1));
  EXPECT_THAT(counting.At(8), ElementsAre(0, 1));
  EXPECT_THAT(counting.newest(), ElementsAre(0, 1));
  counting.Begin(9, {}, {0});
  EXPECT_THAT(counting.At(9), ElementsAre(0));
}

TEST(CountingPipelines, EachMicroBatchHasOnePipeline) {
  for (const Pipelines& counting :
       {Pipelines{0}, Pipelines{2}, Pipelines{0, 3}, Pipelines{1, 2, 3}}) {
    for (std::uint32_t micro_batches = 1; micro_batches < 9; ++micro_batches) {
      std::map<std::uint32_t, std::uint32_t> dealt;
      for (std::uint32_t i = 0; i < micro_batches; ++i) ++dealt[counting[i % counting.size()]];
      for (std::uint32_t pipeline = 0; pipeline < 4; ++pipeline) {
        EXPECT_EQ(MicroBatchesOf({{}, {counting}}, micro_batches, pipeline), dealt[pipeline]);
      }
    }
  }
}

}  // namespace
}  // namespace shoal::scheduler
