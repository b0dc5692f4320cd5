#include "replica/methods/replica_advice.h"

#include <gmock/gmock.h>

#include "replica/methods/replica_method.h"

namespace shoal::replica {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kLocal = "average:codec=direct:bits=4/bucket=512,local_steps=";

ReplicaCase Case(std::uint32_t pipelines, std::uint64_t values, double rate) {
  ReplicaCase run;
  run.pipelines = pipelines;
  run.values = values;
  run.bits_per_second = rate;
  return run;
}

ReplicaSuggestion Suggested(const ReplicaCase& run) {
  return SuggestReplica(run, ReplicaOffers(run));
}

TEST(ReplicaAdvice, OffersAreMethodsOfARunWithFewerAndFewerBytes) {
  for (const std::uint64_t values : {1'000'000ull, 1'000'000'000ull}) {
    const auto offers = ReplicaOffers(Case(4, values, 1e8));
    ASSERT_EQ(offers.size(), values > 1'000'000 ? 6u : 5u) << "local steps where they are of use";
    for (std::size_t i = 0; i < offers.size(); ++i) {
      const auto method = ParseReplicaMethod(offers[i].method);
      ASSERT_TRUE(method.ok()) << method.status().ToString();
      EXPECT_EQ(method->local.steps, offers[i].every > 1 ? offers[i].every : 0);
      EXPECT_EQ(offers[i].bytes, method->StateBytes(values, 4, false));
      if (i > 0) {
        EXPECT_LT(offers[i].seconds / offers[i].every, offers[i - 1].seconds / offers[i - 1].every);
      }
    }
  }
  // 3/4 of 32 Mbit, twice, and 5 % of headers.
  const ReplicaOffer first = ReplicaOffers(Case(4, 1'000'000, 1e8)).front();
  EXPECT_NEAR(first.seconds, 2 * 0.75 * 32e6 * 1.05 / 1e8, 1e-9);
  EXPECT_NEAR(first.share, first.seconds / (first.seconds + 30), 1e-9);
}

TEST(ReplicaAdvice, TakesTheLeastLossThatIsQuickEnough) {
  const auto suggested = [](std::uint64_t values, double rate) {
    return Suggested(Case(2, values, rate)).method;
  };
  EXPECT_EQ(suggested(1'000'000, 1e8), "average");
  EXPECT_EQ(suggested(12'000'000, 1e8), "average:dtype=bf16");
  EXPECT_EQ(suggested(30'000'000, 1e8), "qsdp:weights=8,gradients=8");
  EXPECT_EQ(suggested(60'000'000, 1e8), "qadam:bits=4");
  EXPECT_EQ(suggested(60'000'000, 1e9), "average");
  EXPECT_EQ(suggested(250'000'000, 1e8), "onebit");
  EXPECT_EQ(suggested(700'000'000, 1e8), "onebit") << "4 bits take just less than a step";
  EXPECT_EQ(suggested(1'000'000'000, 1e8), kLocal + std::string("13"));
}

// However long a step is: a tenth of the time, but never more steps than anybody tried.
TEST(ReplicaAdvice, LocalStepsMakeTheExchangeATenth) {
  for (const double step : {0.5, 3.0, 20.0}) {
    ReplicaCase run = Case(8, 1'000'000'000, 1e8);
    run.step_seconds = step;
    const ReplicaOffer offer = ReplicaOffers(run).back();
    const ReplicaSuggestion suggested = SuggestReplica(run, ReplicaOffers(run));
    EXPECT_EQ(suggested.method, kLocal + std::to_string(offer.every));
    EXPECT_THAT(suggested.reason, AllOf(HasSubstr("longer than a step"), HasSubstr("+3 %")));
    if (offer.every == kAdvisedLocalStepsMax) {
      EXPECT_THAT(suggested.reason, HasSubstr("more stages"));
      continue;
    }
    EXPECT_LE(offer.share, kExchangeShareGood);
    const double with_one_less = offer.seconds / (offer.seconds + (offer.every - 1) * step);
    EXPECT_GT(with_one_less, kExchangeShareGood);
  }
}

TEST(ReplicaAdvice, WhereMemoryIsShortTheGroupSharesTheMoments) {
  ReplicaCase run = Case(4, 100'000'000, 1e9);  // 1.6 GB; with qsdp 8 + 12 / 4 bytes a value
  run.memory_bytes = 1'600'000'000;
  EXPECT_EQ(Suggested(run).method, "average:dtype=bf16");
  run.memory_bytes -= 1;
  EXPECT_EQ(Suggested(run).method, "qsdp:weights=8,gradients=8");
  EXPECT_THAT(Suggested(run).reason,
              AllOf(HasSubstr("do not fit"), HasSubstr("share the moments")));
  run.memory_bytes = 1'100'000'000;
  EXPECT_EQ(Suggested(run).method, "qsdp:weights=8,gradients=8");
  run.bits_per_second = 1e7;
  EXPECT_EQ(Suggested(run).method, "qsdp:weights=8,gradients=8") << "the lines do not matter then";
  run.largest_unit = 7'000'000;  // 20 / 4 bytes a value, and 12 of these
  run.memory_bytes = 584'000'000;
  EXPECT_EQ(Suggested(run).method, "qsdp:shard_parameters=true");
  EXPECT_THAT(Suggested(run).reason, HasSubstr("few and large"));
  ASSERT_TRUE(ParseReplicaMethod(Suggested(run).method).ok());
  run.memory_bytes -= 1;
  EXPECT_THAT(Suggested(run).method, IsEmpty());
  EXPECT_THAT(Suggested(run).reason, HasSubstr("take more stages"));
  EXPECT_THAT(DescribeReplicaOffers(run, "10 Mbit/s"), HasSubstr("no method is suggested: "));
}

TEST(ReplicaAdvice, SaysWhatItCosts) {
  EXPECT_EQ(DescribeReplicaOffers(Case(1, 1000, 1e8), "100 Mbit/s"), "");
  const auto text = [](std::uint64_t values) {
    return DescribeReplicaOffers(Case(2, values, 1e8), "100 Mbit/s");
  };
  EXPECT_THAT(text(12'000'000),
              StartsWith("the 2 pipelines exchange what they learned in a step, 12.0 million"));
  EXPECT_THAT(text(12'000'000),
              HasSubstr("over lines of 100 Mbit/s (--link), where a step takes 30 s"));
  EXPECT_THAT(text(12'000'000),
              testing::ContainsRegex("\n  average  +4\\.0 s  +12 %  +\\+0\\.00 %  +183\\.1 MiB\n"));
  EXPECT_THAT(text(12'000'000),
              AllOf(HasSubstr("\nsuggested: --replica average:dtype=bf16\n  it takes less"),
                    Not(HasSubstr("local_steps"))));
  EXPECT_THAT(text(2'000'000'000), HasSubstr("local_steps=26\n  even at 4 bits"));
}

TEST(ReplicaAdvice, MarsitIsNotForTrainingInEarnest) {
  EXPECT_THAT(ReplicaCautions("marsit", 8),
              ElementsAre(AllOf(HasSubstr("sends 3.6 bits"), HasSubstr("method = \"onebit\" "))));
  EXPECT_THAT(ReplicaCautions("marsit:every=50", 8), ElementsAre(HasSubstr("sends 1.6 bits")));
  EXPECT_THAT(ReplicaCautions("marsit", 1), IsEmpty());
  for (const char* method : {"average", "onebit", "qsdp:weights=4,gradients=4", "marsit:bits=1"}) {
    EXPECT_THAT(ReplicaCautions(method, 8), IsEmpty());
  }
}

}  // namespace
}  // namespace shoal::replica
