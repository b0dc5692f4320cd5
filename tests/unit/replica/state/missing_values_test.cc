#include "replica/state/missing_values.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace shoal::replica {
namespace {

TEST(MissingValues, TakesTheFirstAndJoinsWhatComesBack) {
  MissingValues missing(10);
  EXPECT_EQ(missing.Take(4), (ValueRun{0, 4}));
  EXPECT_EQ(missing.Take(4), (ValueRun{4, 4}));
  EXPECT_EQ(missing.count(), 2u);
  missing.Add({0, 4});
  EXPECT_EQ(missing.Take(100), (ValueRun{0, 4}));
  missing.Add({4, 4});
  EXPECT_EQ(missing.Take(100), (ValueRun{4, 6}));
  EXPECT_TRUE(missing.empty());
  EXPECT_FALSE(missing.Take(1));
}

// Against a set of single values.
TEST(MissingValues, AgreesWithASetOfValues) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MissingValues missing(100);
    std::set<std::size_t> reference;
    for (std::size_t i = 0; i < 100; ++i) reference.insert(i);
    std::vector<ValueRun> out;
    for (int i = 0; i < 300; ++i) {
      if (random() % 2 == 0 || out.empty()) {
        const auto run = missing.Take(1 + random() % 9);
        ASSERT_EQ(run.has_value(), !reference.empty());
        if (!run) continue;
        EXPECT_EQ(run->first, *reference.begin());
        for (std::size_t v = 0; v < run->values; ++v)
          EXPECT_EQ(reference.erase(run->first + v), 1u);
        out.push_back(*run);
      } else {
        const std::size_t which = random() % out.size();
        missing.Add(out[which]);
        for (std::size_t v = 0; v < out[which].values; ++v) reference.insert(out[which].first + v);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(which));
      }
      EXPECT_EQ(missing.count(), reference.size());
    }
  }
}

}  // namespace
}  // namespace shoal::replica
