#include "pipeline/core/kept_memories.h"

#include <gtest/gtest.h>

namespace shoal::pipeline {
namespace {

TEST(KeptMemoriesTest, BelongToABoundaryWithAPeerAfterSoManySteps) {
  PeerId peer, other;
  other.key[0] = 1;
  KeptMemories kept;
  kept.At(4);
  kept.Keep({2, true}, {peer, {}, nullptr});
  kept.errors()->Keep("a", {.members = 3});
  kept.At(4);
  EXPECT_NE(kept.Find({2, true}, peer), nullptr);
  EXPECT_EQ(kept.Find({2, true}, other), nullptr);
  EXPECT_EQ(kept.Find({2, false}, peer), nullptr);
  EXPECT_EQ(kept.Find({1, true}, peer), nullptr);
  kept.At(5);
  EXPECT_EQ(kept.Find({2, true}, peer), nullptr);
  EXPECT_EQ(kept.errors()->Take("a").members, 0u);
}

}  // namespace
}  // namespace shoal::pipeline
