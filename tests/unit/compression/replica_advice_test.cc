#include "compression/replica_advice.h"

#include <gmock/gmock.h>

#include "compression/replica_method.h"

namespace shoal::compression {
namespace {

using testing::HasSubstr;

TEST(ReplicaAdvice, OffersAreMethodsOfARunWithFewerAndFewerBytes) {
  const auto offers = ReplicaOffers(4, 1'000'000, 1e8);
  ASSERT_GT(offers.size(), 2u);
  for (std::size_t i = 0; i < offers.size(); ++i) {
    EXPECT_TRUE(ParseReplicaMethod(offers[i].method).ok()) << offers[i].method;
    if (i > 0) {
      EXPECT_LT(offers[i].seconds, offers[i - 1].seconds);
    }
  }
  // 3/4 of 32 Mbit, twice, and 5 % of headers.
  EXPECT_NEAR(offers.front().seconds, 2 * 0.75 * 32e6 * 1.05 / 1e8, 1e-9);
}

TEST(ReplicaAdvice, TakesTheLeastLossThatIsQuickEnough) {
  const auto suggested = [](std::uint64_t values, double rate) {
    return SuggestReplica(ReplicaOffers(2, values, rate)).method;
  };
  EXPECT_EQ(suggested(1'000'000, 1e8), "average");
  EXPECT_EQ(suggested(12'000'000, 1e8), "average:dtype=bf16");
  EXPECT_EQ(suggested(60'000'000, 1e8), "qadam:bits=4");
  EXPECT_EQ(suggested(60'000'000, 1e9), "average");
  EXPECT_EQ(suggested(2'000'000'000, 1e8), "onebit");
}

TEST(ReplicaAdvice, SaysWhatItCosts) {
  EXPECT_EQ(DescribeReplicaOffers(ReplicaOffers(1, 1000, 1e8), 1000, "100 Mbit/s"), "");
  const auto text = [](std::uint64_t values) {
    return DescribeReplicaOffers(ReplicaOffers(2, values, 1e8), values, "100 Mbit/s");
  };
  EXPECT_THAT(text(12'000'000), HasSubstr("12.0 million values"));
  EXPECT_THAT(text(12'000'000),
              HasSubstr("over lines of 100 Mbit/s that takes 4.0 s with average,"));
  EXPECT_THAT(text(12'000'000), HasSubstr("suggested: --replica average:dtype=bf16, the least"));
  EXPECT_THAT(text(2'000'000'000), HasSubstr("onebit, the fewest bytes; more stages"));
}

}  // namespace
}  // namespace shoal::compression
