#include "compression/api/typical_energy.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace shoal::compression {
namespace {

TEST(TypicalEnergy, IsSixteenTimesTheMedianWhateverTheLargestIs) {
  EXPECT_EQ(TypicalEnergyMost(std::vector<double>{5}), 80);
  EXPECT_EQ(TypicalEnergyMost(std::vector<double>{1e30, 1, 3, 2, 0}), 32);
  EXPECT_EQ(TypicalEnergyMost(std::vector<double>{4, 1, 3, 2}), 48) << "the upper of two";
}

TEST(TypicalEnergy, HasNoEndWhereMostTokensAreZeros) {
  EXPECT_EQ(TypicalEnergyMost(std::vector<double>{0, 7, 0}),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace shoal::compression
