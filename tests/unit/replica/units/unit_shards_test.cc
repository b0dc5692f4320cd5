// Sums of gradients in a member's own shards.

#include "replica/units/unit_shards.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shoal::replica {
namespace {

UnitShards NewShards(std::size_t values) {
  return {{{0, false, MakeParameterGroup({{"w", 0, values, {values}}}, nullptr, 1)}},
          {{0, values}}};
}

Status Add(UnitShards* shards, float value) { return shards->Add(0, 0, std::vector{value, value}); }

TEST(UnitShards, SumsDoNotDependOnTheOrder) {
  UnitShards up = NewShards(2), down = NewShards(2);
  const float values[] = {1e6F, 3e-7F, -1e6F, 0.1F};
  for (const float value : values) ASSERT_TRUE(Add(&up, value).ok());
  for (std::size_t i = std::size(values); i-- > 0;) ASSERT_TRUE(Add(&down, values[i]).ok());
  EXPECT_EQ(up.SquaredNorm(), down.SquaredNorm());
  EXPECT_NEAR(up.SquaredNorm(), 2 * 0.01, 1e-6);
}

TEST(UnitShards, WhatIsTooLargeForASumIsRefused) {
  for (const float value :
       {2 * kAddendMost, -2 * kAddendMost, NAN, std::numeric_limits<float>::infinity()}) {
    UnitShards shards = NewShards(2);
    EXPECT_EQ(Add(&shards, value).code(), StatusCode::kInvalidArgument) << value;
  }
}

}  // namespace
}  // namespace shoal::replica
