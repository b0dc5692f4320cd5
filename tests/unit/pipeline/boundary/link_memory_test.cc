#include "pipeline/boundary/link_memory.h"

#include <gtest/gtest.h>

namespace shoal::pipeline {
namespace {

LinkMemory::State NewState(float error) {
  auto state = std::make_shared<compression::LowRankState>();
  state->error = {error};
  return state;
}

TEST(LinkMemoryTest, StagedStatesCountFromTheCommitOn) {
  LinkMemory memory;
  ASSERT_NE(memory.newest(), nullptr);
  EXPECT_EQ(*memory.newest(), compression::LowRankState());
  memory.Stage(NewState(1));
  memory.Stage(NewState(2));
  EXPECT_EQ(memory.newest()->error[0], 2);
  memory.DropStaged();
  EXPECT_EQ(*memory.newest(), compression::LowRankState());
  memory.Stage(NewState(3));
  memory.Commit();
  memory.Stage(NewState(4));
  memory.DropStaged();
  EXPECT_EQ(memory.newest()->error[0], 3);
  memory.DropStaged();
  EXPECT_EQ(memory.newest()->error[0], 3);
}

TEST(LinkMemoryTest, AnotherGenerationGoesOnFromWhatIsKept) {
  LinkMemory memory, next;
  memory.Stage(NewState(1));
  memory.Commit();
  memory.Stage(NewState(2));
  next.GoOnFrom(memory.kept());
  EXPECT_EQ(next.newest()->error[0], 1);
  next.Stage(NewState(3));
  next.DropStaged();
  EXPECT_EQ(next.newest()->error[0], 1);
}

TEST(LinkMemoryTest, ActivationsWaitForTheirGradients) {
  LinkMemory memory;
  EXPECT_TRUE(memory.TakeActivations(0).empty());
  std::vector<float> values(3 * 20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const compression::ValueHome& home = *compression::HostValues();
  memory.PutActivations(1, LinkMemory::Sample(home, values, 20000).value());
  memory.PutActivations(0, LinkMemory::Sample(home, std::span(values).first(40), 20).value());
  EXPECT_EQ(memory.TakeActivations(0), std::vector(values.begin(), values.begin() + 40));
  EXPECT_TRUE(memory.TakeActivations(0).empty()) << "once";
  const std::vector<std::span<const float>> samples = {std::span(values).first(20000),
                                                       std::span(values).subspan(20000, 20000),
                                                       std::span(values).last(20000)};
  const std::vector<float> kept = memory.TakeActivations(1);
  EXPECT_EQ(kept, compression::SampleActivations(samples));
  EXPECT_LT(kept.size(), values.size() / 2);
}

}  // namespace
}  // namespace shoal::pipeline
