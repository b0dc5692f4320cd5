#include "replica/collective/shard_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace shoal::collective {
namespace {

TEST(ShardLayoutTest, EqualSharesDifferByARowAtMost) {
  for (std::size_t members = 1; members <= 8; ++members) {
    for (const std::size_t values : {0u, 1u, 7u, 8u, 9u, 800u, 801u, 12345u}) {
      const std::vector<double> shares(members, 2.5);
      const ShardLayout layout(values, shares, 8, 24);
      std::size_t least = values, most = 0;
      for (std::size_t r = 0; r < members; ++r) {
        least = std::min(least, layout.shard(r).size());
        most = std::max(most, layout.shard(r).size());
      }
      EXPECT_LE(most - least, 15u) << values << " values, " << members << " members";
      EXPECT_EQ(layout.values(), values);
    }
  }
}

TEST(ShardLayoutTest, ChunksCoverEveryValueOnceAtMultiplesOfTheRow) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> shares(1 + random() % 8);
    for (double& share : shares) share = random() % 4;
    shares[random() % shares.size()] = 1.5;
    const std::size_t values = random() % 5000, row = 1 + random() % 40;
    const std::size_t chunk = row * (1 + random() % 5);
    const ShardLayout layout(values, shares, row, chunk);
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::size_t at = 0;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      const double exact = static_cast<double>(values) * shares[r] / all;
      EXPECT_LE(std::abs(static_cast<double>(layout.shard(r).size()) - exact), 2.0 * row);
      EXPECT_TRUE(shares[r] > 0 || layout.shard(r).size() == 0);
      for (std::size_t c = 0; c < layout.chunks(r); ++c) {
        const ValueRange range = layout.chunk(r, c);
        EXPECT_EQ(range.begin, at);
        EXPECT_EQ(range.begin % row, 0u);
        EXPECT_GT(range.size(), 0u);
        EXPECT_LE(range.size(), chunk);
        at = range.end;
      }
    }
    EXPECT_EQ(at, values);
  }
}

}  // namespace
}  // namespace shoal::collective
