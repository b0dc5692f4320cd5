#include "compression/api/value_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Said once more in plain words.
bool Within(const std::vector<float>& values, float most) {
  for (const float value : values) {
    if (!std::isfinite(value) || std::abs(value) > most) return false;
  }
  return true;
}

TEST(ValueRange, OneValueThatIsNotFiniteOrTooLargeIsSeenWhereverItStands) {
  AtEveryLevel([] {
    for (const float most : {0x1p21F, 0x1p90F}) {
      for (const float value :
           {0.0F, -0.0F, 1.0F, -3e-41F, most, -most, std::nextafter(most, kInfinity),
            -std::nextafter(most, kInfinity), kInfinity, -kInfinity, kNan, -kNan,
            std::numeric_limits<float>::max()}) {
        for (const std::size_t size : {1, 7, 64, 1001}) {
          for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
            std::vector<float> values(size, -0.5F);
            values[at] = value;
            EXPECT_EQ(AllWithin(values, most), Within(values, most)) << value << " at " << at;
          }
        }
      }
    }
  });
  EXPECT_TRUE(AllWithin({}, 1));
}

}  // namespace
}  // namespace shoal::compression
