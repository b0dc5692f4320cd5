// Rounds that count in part: what was agreed and what memories keep still add up to the targets.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/replica/collective/exchange_group.h"
#include "tests/unit/replica/collective/exchange_reference.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kMembers = 3, kValues = 217;
constexpr char kExact[] = "raw:dtype=fp32";
const std::vector<std::uint64_t> kAll(kMembers, 1);

ExchangeConfig Config(const std::string& codec, bool reuse = false) {
  ExchangeConfig config;
  config.codec = codec;
  config.error_feedback = true;
  config.reuse_memory = reuse;
  config.row = 16;
  config.chunk_values = 48;
  config.seed = 3;
  return config;
}

class PartGroup {
 public:
  explicit PartGroup(const ExchangeConfig& config, unsigned seed = 1,
                     std::size_t members = kMembers)
      : group_(members, seed,
               [this, config](GroupChannel* channel, Executor* control,
                              Executor* compute) -> Result<std::unique_ptr<Exchange>> {
                 SHOAL_ASSIGN_OR_RETURN(auto made,
                                        NewBlendingExchange(config, channel, control, compute));
                 members_.push_back(made.get());
                 std::unique_ptr<Exchange> exchange = std::move(made);
                 return exchange;
               }) {}

  ExchangeRequest Request(const std::vector<std::uint64_t>& weights = kAll) {
    ExchangeRequest request;
    request.round = ++round_;
    request.weights = weights;
    request.combine = Combine::kWeightedMean;
    return request;
  }
  Values Round(const std::vector<Values>& values,
               const std::vector<std::uint64_t>& weights = kAll) {
    group_.Round(Request(weights), values);
    return group_.Agreed();
  }
  // What members did not say yet: an exact round of nothing else says it.
  Values Rest() {
    ExchangeRequest request = Request();
    request.codec = request.result_codec = kExact;
    group_.Round(request, std::vector<Values>(kMembers, Values(kValues)));
    return group_.Agreed();
  }
  std::vector<Status> CommitPart(double factor) {
    std::vector<Status> statuses(kMembers, Unavailable("no answer"));
    for (std::size_t r = 0; r < kMembers; ++r) {
      members_[r]->CommitPart(factor, [&statuses, r](Status status) { statuses[r] = status; });
    }
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << "comes in a task of its own";
    }
    group_.Drain();
    return statuses;
  }
  void Commit(double factor) {
    for (const Status& status : CommitPart(factor)) EXPECT_TRUE(status.ok()) << status.ToString();
  }

  std::vector<BlendingExchange*> members_;
  ExchangeGroup group_;
  std::uint64_t round_ = 0;
};

std::vector<Values> ValuesOfRound(std::uint64_t round, float scale = 1) {
  std::mt19937 random(static_cast<unsigned>(round));
  std::normal_distribution<float> normal(0.1F, scale);
  std::vector<Values> values(kMembers, Values(kValues));
  for (Values& member : values) {
    for (float& value : member) value = normal(random);
  }
  return values;
}

double Norm(const Values& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double FactorOf(std::mt19937* random) {
  return std::uniform_real_distribution<double>(0.01, kBlendMost)(*random);
}

class ExchangePart : public testing::TestWithParam<const char*> {};

TEST_P(ExchangePart, MemoriesAreThoseOfTheReference) {
  for (const bool reuse : {false, true}) {
    PartGroup group(Config(GetParam(), reuse));
    ExchangeReference reference(Config(GetParam()), kMembers, 48);
    std::mt19937 random(5);
    for (std::uint64_t step = 1; step <= 20; ++step) {
      // In between a member only listens, and others own its shard. What it has not said waits.
      const std::vector<std::uint64_t> weights =
          step < 12 || step > 16 ? kAll : std::vector<std::uint64_t>{1, 0, 1};
      const std::vector<Values> values = ValuesOfRound(step);
      ExchangeRequest request;
      request.round = step;
      request.weights = weights;
      request.combine = Combine::kWeightedMean;
      const Values expected = reference.Round(request, values);
      ASSERT_TRUE(SameBits(group.Round(values, weights), expected)) << "step " << step;
      const double factor = FactorOf(&random);
      group.Commit(factor);
      reference.Commit(static_cast<float>(factor));
    }
  }
}

// With `base` on all members, base + factor x (result - base) is what counts of a round.
TEST_P(ExchangePart, WhatCountsAddsUpToTheTargetsLessTheMemories) {
  PartGroup group(Config(GetParam()));
  std::mt19937 random(6);
  std::vector<double> missing(kValues);
  double scale = 0;
  for (std::uint64_t step = 1; step <= 50; ++step) {
    const std::vector<Values> own = ValuesOfRound(step);
    const Values base = ValuesOfRound(1000 + step)[0];
    std::vector<Values> values = own;
    for (Values& member : values) {
      for (std::size_t i = 0; i < kValues; ++i) member[i] += base[i];
    }
    const Values result = group.Round(values);
    const double factor = FactorOf(&random);
    double squares = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
      double mean = 0;
      for (const Values& member : values) mean += static_cast<double>(member[i]) / kMembers;
      const double target = base[i] + factor * (mean - base[i]);
      missing[i] += target - (base[i] + factor * (static_cast<double>(result[i]) - base[i]));
      squares += target * target;
    }
    scale += std::sqrt(squares);
    group.Commit(factor);
  }
  const Values rest = group.Rest();
  EXPECT_GT(Norm(rest), 0.01 * scale / 50) << "there is something to be told apart";
  double squares = 0;
  for (std::size_t i = 0; i < kValues; ++i) squares += std::pow(missing[i] - rest[i], 2);
  EXPECT_LT(std::sqrt(squares), 1e-6 * scale);
}

TEST_P(ExchangePart, AFactorOfOneIsCommit) {
  PartGroup one(Config(GetParam())), other(Config(GetParam()), 9);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    const std::vector<Values> values = ValuesOfRound(step);
    ASSERT_TRUE(SameBits(one.Round(values), other.Round(values))) << "step " << step;
    one.Commit(1);
    other.group_.Commit();
  }
}

TEST_P(ExchangePart, ARoundThatIsRolledBackLeavesNothing) {
  PartGroup quiet(Config(GetParam())), group(Config(GetParam()));
  for (std::uint64_t step = 1; step <= 12; ++step) {
    if (step % 3 == 0) {
      group.Round(ValuesOfRound(100 + step, 50));
      for (BlendingExchange* member : group.members_) member->Rollback();
      ++quiet.round_;
    }
    const std::vector<Values> values = ValuesOfRound(step);
    ASSERT_TRUE(SameBits(group.Round(values), quiet.Round(values))) << "step " << step;
    const double factor = step % 2 == 0 ? 0.3 : 1.1;
    group.Commit(factor);
    quiet.Commit(factor);
  }
}

TEST_P(ExchangePart, AFactorOutOfBoundsIsRefusedAndChangesNothing) {
  PartGroup quiet(Config(GetParam())), group(Config(GetParam()));
  for (PartGroup* each : {&quiet, &group}) {
    each->Round(ValuesOfRound(1));
    each->Commit(0.5);
    each->Round(ValuesOfRound(2));
  }
  for (const double factor :
       {0.0, -0.5, 0x1p-65, 1.2501, 1e300, std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (const Status& status : group.CommitPart(factor)) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << factor;
    }
  }
  quiet.Commit(0.7);
  group.Commit(0.7);
  const std::vector<Values> values = ValuesOfRound(3);
  EXPECT_TRUE(SameBits(group.Round(values), quiet.Round(values)));
}

// What a member does not send of a value that counts by a thousandth is a thousandth, too.
TEST_P(ExchangePart, ASpikeThatIsTamedIsTamedInTheMemories) {
  PartGroup calm(Config(GetParam())), tamed(Config(GetParam())), untamed(Config(GetParam()));
  for (std::uint64_t step = 1; step <= 20; ++step) {
    std::vector<Values> values = ValuesOfRound(step);
    calm.Round(values);
    calm.Commit(1);
    const bool spike = step == 20;
    for (Values& member : values) {
      for (float& value : member) value *= spike ? 1000 : 1;
    }
    for (PartGroup* group : {&tamed, &untamed}) group->Round(values);
    tamed.Commit(spike ? 1e-3 : 1);
    untamed.Commit(1);
  }
  const double rest = Norm(calm.Rest());
  EXPECT_LT(Norm(tamed.Rest()), 2 * rest);
  EXPECT_GT(Norm(untamed.Rest()), 100 * rest);
}

INSTANTIATE_TEST_SUITE_P(Codecs, ExchangePart,
                         testing::Values("onebit", "onebit:bucket=16", "direct:bits=4,bucket=16",
                                         "direct:bits=3,bucket=16,rounding=stochastic"));

// A part of what results lack is each member's own: it moves to other groups with the member, and
// is said there as a part of its mean, or of a sum. Groups are larger, smaller, or of other owners.
TEST_P(ExchangePart, WhatAMemberDidNotSayGoesWithItToAnotherGroup) {
  for (const Combine combine : {Combine::kWeightedMean, Combine::kSum}) {
    // Rounds of 3 members; then what is left of members goes to these places of new groups, and is
    // said.
    const auto left = [&](const std::vector<std::vector<int>>& groups, Values* lacks) {
      PartGroup group(Config(GetParam()));
      std::vector<double> targets(kValues);
      for (std::uint64_t step = 1; step <= 12; ++step) {
        const std::vector<Values> values = ValuesOfRound(step);
        ExchangeRequest request = group.Request();
        request.combine = combine;
        group.group_.Round(request, values);
        const Values agreed = group.group_.Agreed();
        group.group_.Commit();
        const double part = combine == Combine::kSum ? 1 : 1.0 / kMembers;
        for (std::size_t i = 0; i < kValues; ++i) {
          for (const Values& member : values) targets[i] += part * member[i];
          targets[i] -= agreed[i];
        }
      }
      lacks->assign(targets.begin(), targets.end());
      std::vector<double> said(kValues);
      for (const std::vector<int>& places : groups) {
        PartGroup next(Config(GetParam()), 2, places.size());
        for (std::size_t r = 0; r < places.size(); ++r) {
          if (places[r] < 0) continue;
          next.members_[r]->Adopt(
              group.members_[static_cast<std::size_t>(places[r])]->TakeErrors());
        }
        ExchangeRequest request = next.Request(std::vector<std::uint64_t>(places.size(), 1));
        request.combine = combine;
        request.codec = request.result_codec = kExact;
        next.group_.Round(request, std::vector<Values>(places.size(), Values(kValues)));
        const Values rest = next.group_.Agreed();
        for (std::size_t i = 0; i < kValues; ++i) said[i] += rest[i];
      }
      return said;
    };
    const std::vector<std::vector<std::vector<int>>> cases = {
        {{0, 1, 2}}, {{2, 0, 1}}, {{1, -1, 0, 2, -1}}, {{0, 2}, {1}}, {{0}, {1}, {2}}};
    for (const auto& groups : cases) {
      Values lacks;
      const std::vector<double> said = left(groups, &lacks);
      EXPECT_GT(Norm(lacks), 0.1);
      for (std::size_t i = 0; i < kValues; ++i) {
        ASSERT_NEAR(said[i], lacks[i], 1e-4) << groups.size() << " groups, value " << i;
      }
    }
  }
}

// Memories that only one of both has stand beside zeros in the other's place.
TEST(ExchangePartTest, AnExactRoundThatCountsInPartLeavesTheRest) {
  PartGroup group(Config("onebit")), other(Config("onebit"));
  for (PartGroup* each : {&group, &other}) {
    each->Round(ValuesOfRound(1));
    each->Commit(0.5);
  }
  const Values all = other.Rest();
  group.Rest();
  group.Commit(0.75);
  const Values rest = group.Rest();
  for (std::size_t i = 0; i < kValues; ++i) EXPECT_NEAR(rest[i], 0.25 * all[i], 1e-6);
}

TEST(ExchangePartTest, TheEndOfAnExchangeIsTheEndOfItsCommit) {
  PartGroup group(Config("onebit"));
  group.Round(ValuesOfRound(1));
  bool called = false;
  for (BlendingExchange* member : group.members_) {
    member->CommitPart(0.5, [&](const Status&) { called = true; });
  }
  for (auto& exchange : group.group_.exchange_) exchange.reset();
  group.group_.Drain();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace shoal::collective
