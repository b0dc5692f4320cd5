#include "replica/state/error_keeper.h"

#include <gtest/gtest.h>

#include "replica/replica_step.h"

namespace shoal::replica {
namespace {

KeptVector Some() {
  KeptVector kept;
  kept.members = 3;
  return kept;
}

TEST(ErrorKeeperTest, GivesBackOnceWhatWasKeptAfterTheSameSteps) {
  ErrorKeeper keeper;
  keeper.At(7);
  keeper.Keep("a", Some());
  keeper.Keep("b", Some());
  keeper.At(7);
  EXPECT_EQ(keeper.Take("a").members, 3u);
  EXPECT_EQ(keeper.Take("a").members, 0u);
  EXPECT_EQ(keeper.Take("c").members, 0u);
  keeper.At(8);
  EXPECT_EQ(keeper.Take("b").members, 0u);
}

TEST(ErrorKeeperTest, VectorsAreNamedByWhatTheyAreAndWhereTheyLie) {
  ParameterGroup part;
  part.ranges = {{0, 5}, {9, 2}};
  EXPECT_EQ(VectorName("momenta", part), "momenta 0+5 9+2");
}

}  // namespace
}  // namespace shoal::replica
