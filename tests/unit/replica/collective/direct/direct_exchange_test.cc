#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <tuple>

#include "replica/collective/exchange_coders.h"
#include "replica/collective/exchange_message.h"
#include "replica/collective/shard_layout.h"
#include "replica/methods/group_limits.h"
#include "tests/unit/replica/collective/exchange_group.h"
#include "tests/unit/replica/collective/exchange_reference.h"

namespace shoal::collective {
namespace {

// Rows and chunks so small that short vectors have many.
ExchangeConfig Small(std::string codec, bool feedback = false) {
  ExchangeConfig config;
  config.codec = std::move(codec);
  config.error_feedback = feedback;
  config.row = 16;
  config.chunk_values = 48;
  config.seed = 77;
  return config;
}

std::vector<std::uint64_t> Ones(std::size_t members) {
  return std::vector<std::uint64_t>(members, 1);
}

// The obvious sum: value by value, contributors in rank order, in fp32.
Values RankOrderSum(const std::vector<Values>& values, const std::vector<std::uint64_t>& weights) {
  Values sum(values[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    std::optional<float> total;
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (weights[r] != 0) total = total ? *total + values[r][i] : values[r][i];
    }
    sum[i] = *total;
  }
  return sum;
}

class ExactSizes : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ExactSizes, EqualsRankOrderSumBitForBitOnAllMembers) {
  const auto [members, count] = GetParam();
  ExchangeConfig config;
  config.row = 4;
  config.chunk_values = 20;
  if (count > 10000) config.chunk_values = 4096;
  ExchangeGroup group(members, 7 * members + count, config);
  const std::uint64_t rounds = count > 10000 ? 1 : 3;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const std::vector<Values> values = group.RandomOfAll(count);
    std::vector<std::uint64_t> weights(members);
    for (auto& weight : weights) weight = group.random_() % 3;
    weights[group.random_() % members] = 5;
    group.Round(round, weights, values);
    EXPECT_TRUE(SameBits(group.Agreed(), RankOrderSum(values, weights))) << "round " << round;
    for (int r = 0; r < members; ++r) {
      if (weights[r] != 0) continue;
      EXPECT_EQ(group.exchange_[r]->traffic().sent_messages, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExactSizes,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                                          testing::Values(0, 1, 2, 3, 7, 64, 1001, 100000)));

TEST(DirectExchangeTest, ValuesThatAreNotFiniteTravelAsTheyAreInFp32) {
  ExchangeGroup group(2, 1);
  group.Round(1, {1, 1}, {{INFINITY, 1, NAN}, {1, -INFINITY, 2}});
  EXPECT_EQ(group.ValuesOf(0)[0], INFINITY);
  EXPECT_EQ(group.ValuesOf(1)[1], -INFINITY);
  EXPECT_TRUE(std::isnan(group.ValuesOf(0)[2]));
}

struct Coding {
  const char* codec;
  bool feedback;
};
class Codings : public testing::TestWithParam<Coding> {};

// 100 rounds with the memories of errors growing and shrinking, members listening now and then.
TEST_P(Codings, EqualsTheSingleProcessReferenceForAHundredRounds) {
  ExchangeConfig config = Small(GetParam().codec, GetParam().feedback);
  config.reuse_memory = GetParam().feedback;
  ExchangeGroup group(3, 5, config);
  ExchangeReference reference(config, 3, 48);
  for (std::uint64_t round = 1; round <= 100; ++round) {
    ExchangeRequest request{round, 0, {2, 1, 3}, Combine::kWeightedMean, nullptr};
    if (round % 20 == 7) request.weights = {1, 0, 1};
    const std::vector<Values> values = group.RandomOfAll(217);
    group.Round(request, values);
    group.Commit();
    ASSERT_TRUE(SameBits(group.Agreed(), reference.Round(request, values))) << "round " << round;
    for (std::size_t r = 0; r < 3; ++r) {
      group.exchange_[r]->Recycle(std::move(**group.results_[r]));
    }
  }
}

TEST_P(Codings, AgreesAmongOneToEightMembersWhateverTheSize) {
  const ExchangeConfig config = Small(GetParam().codec, GetParam().feedback);
  for (std::size_t members = 1; members <= 8; ++members) {
    for (const std::size_t count : {0u, 1u, 15u, 16u, 501u}) {
      ExchangeGroup group(members, 3 * members, config);
      ExchangeReference reference(config, members, 48);
      ExchangeRequest request{9, 0, Ones(members), Combine::kSum, nullptr};
      const std::vector<Values> values = group.RandomOfAll(count);
      group.Round(request, values);
      EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values)))
          << members << " members, " << count << " values";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Codings,
    testing::Values(Coding{"raw:dtype=fp32", true}, Coding{"raw:dtype=bf16", false},
                    Coding{"raw:dtype=fp16", true}, Coding{"direct:bits=4,bucket=16", true},
                    Coding{"direct:bits=8,bucket=8", false},
                    Coding{"direct:bits=2,bucket=16,rounding=stochastic", true},
                    Coding{"direct+rans:bits=3,bucket=16", true}, Coding{"tiles:bits=3", true},
                    Coding{"topk:ratio=0.1,bits=4,bucket=8", true},
                    Coding{"dithered:step=1", false}, Coding{"dithered:step=1", true},
                    Coding{"shifted:bits=4,bucket=16", false},
                    Coding{"learned:bits=3,bucket=16", true},
                    Coding{"cocktail:stride=4,ratio=0.3,bits=4,bucket=8", true},
                    Coding{"onebit", true}, Coding{"onebit:bucket=7", true}),
    [](const auto& name) {
      std::string text = std::string(name.param.codec) + (name.param.feedback ? "_fb" : "");
      for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return text;
    });

// The group of a tied embedding has two members for each pipeline.
TEST(DirectExchangeTest, TwoMembersForEachOfSixtyFourPipelinesAgree) {
  const ExchangeConfig config = Small("direct:bits=2,bucket=16,rounding=stochastic");
  constexpr std::size_t kMembers = 2 * replica::kPipelinesMax;
  ExchangeGroup group(kMembers, 6, config);
  ExchangeReference reference(config, kMembers, 48);
  const ExchangeRequest request{3, 0, Ones(kMembers), Combine::kWeightedMean, nullptr};
  const std::vector<Values> values = group.RandomOfAll(16 * kMembers);
  group.Round(request, values);
  EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values)));
  EXPECT_EQ(CheckedCoders(config, kMembers + 1).status().message(),
            "a group has 1 to 128 members, this one has 129");
}

TEST(DirectExchangeTest, ContributionsAndResultsMayHaveDifferentCodecs) {
  ExchangeConfig config = Small("direct:bits=4,bucket=16", true);
  config.result_codec = "raw:dtype=fp32";
  ExchangeGroup group(4, 5, config);
  ExchangeReference reference(config, 4, 48);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    ExchangeRequest request{round, 0, Ones(4), Combine::kSum, nullptr};
    const std::vector<Values> values = group.RandomOfAll(300);
    group.Round(request, values);
    EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values)));
  }
}

TEST(DirectExchangeTest, SharesDecideWhoOwnsWhatAndNothingElse) {
  ExchangeConfig config;
  config.row = 10;
  config.shares = {0, 3, 1};
  ExchangeGroup group(3, 6, config);
  const std::vector<Values> values = group.RandomOfAll(400);
  group.Round(1, {1, 1, 1}, values);
  EXPECT_TRUE(SameBits(group.Agreed(), RankOrderSum(values, {1, 1, 1})));
  // Member 1 owns 300 values, member 2 the rest, member 0 none.
  EXPECT_EQ(group.exchange_[0]->traffic().sent_bytes, 2 * 64u + 4 * 400);
  EXPECT_EQ(group.exchange_[1]->traffic().sent_bytes, 3 * 64u + 4 * (100 + 2 * 300));
  EXPECT_EQ(group.exchange_[2]->traffic().sent_bytes, 3 * 64u + 4 * (300 + 2 * 100));
}

// What was agreed plus what is still in the memories is what was put in: nothing is lost.
TEST(DirectExchangeTest, ErrorMemoriesTelescope) {
  for (const char* codec :
       {"onebit", "direct:bits=2,bucket=16", "tiles:bits=2", "dithered:step=2",
        "topk:ratio=0.05,bits=4,bucket=8", "topk:ratio=0.1,bits=2,bucket=16",
        "learned:bits=2,bucket=16", "cocktail:stride=10,ratio=0.2,bits=4", "raw:dtype=bf16"}) {
    const ExchangeConfig config = Small(codec, true);
    ExchangeGroup group(4, 8, config);
    ExchangeReference reference(config, 4, 48);
    constexpr std::size_t kValues = 333;
    std::vector<double> in(kValues), out(kValues);
    double scale = 0;
    for (std::uint64_t round = 1; round <= 50; ++round) {
      ExchangeRequest request{round, 0, Ones(4), Combine::kSum, nullptr};
      const std::vector<Values> values = group.RandomOfAll(kValues);
      group.Round(request, values);
      const Values agreed = group.Agreed();
      ASSERT_TRUE(SameBits(agreed, reference.Round(request, values))) << codec;
      for (std::size_t i = 0; i < kValues; ++i) {
        for (const Values& member : values) {
          in[i] += member[i];
          scale += std::abs(member[i]) / kValues;
        }
        out[i] += agreed[i];
      }
    }
    // The reference's memories are the group's, since all rounds agreed to the bit.
    for (std::size_t i = 0; i < kValues; ++i) {
      double rest = reference.server_error()[i];
      for (std::size_t r = 0; r < 4; ++r) rest += reference.worker_error(r)[i];
      EXPECT_LE(std::abs(in[i] - out[i] - rest), 1e-6 * scale) << codec << " value " << i;
    }
  }
}

// Equal values on all members, rounded by chance: the sum is unbiased, and as the members' draws
// are independent of each other and of the round before, errors average out.
TEST(DirectExchangeTest, StochasticRoundingIsUnbiasedAndIndependentAmongMembersAndRounds) {
  constexpr std::size_t kMembers = 4, kValues = 4096, kRounds = 25;  // 1e5 draws of a sum
  ExchangeConfig config = Small("direct:bits=2,bucket=16,levels=affine,rounding=stochastic");
  config.result_codec = "raw:dtype=fp32";
  ExchangeGroup group(kMembers, 21, config);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.9f, 0.9f);
  Values values(kValues);
  for (float& value : values) value = uniform(random);
  double sum = 0, squares = 0, across = 0, single_squares = 0;
  Values before(kValues);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    group.Round(2 * round, Ones(kMembers), std::vector<Values>(kMembers, values));
    const Values agreed = group.Agreed();
    for (std::size_t i = 0; i < kValues; ++i) {
      const float error = agreed[i] - static_cast<float>(kMembers) * values[i];
      sum += error;
      squares += double{error} * error;
      across += double{error} * before[i];
      before[i] = error;
    }
    // One member alone has the variance of one draw.
    group.Round(2 * round + 1, {0, 1, 0, 0}, std::vector<Values>(kMembers, values));
    const Values alone = group.Agreed();
    for (std::size_t i = 0; i < kValues; ++i) {
      single_squares += double{alone[i] - values[i]} * (alone[i] - values[i]);
    }
  }
  const double draws = kValues * kRounds;
  EXPECT_LT(std::abs(sum), 4.5 * std::sqrt(squares));                // z-test of the mean
  EXPECT_NEAR(squares / single_squares, kMembers, 0.05 * kMembers);  // 16 if draws were equal
  EXPECT_LT(std::abs(across), 5 * squares / std::sqrt(draws));       // rounds, too
}

TEST(DirectExchangeTest, TensorsHaveMemoriesOfTheirOwn) {
  const ExchangeConfig config = Small("onebit", true);
  ExchangeGroup group(2, 9, config);
  ExchangeReference first(config, 2, 48), second(config, 2, 48);
  for (std::uint64_t round = 1; round <= 10; ++round) {
    ExchangeRequest request{
        round, static_cast<std::uint32_t>(round % 2), {1, 1}, Combine::kSum, nullptr};
    const std::vector<Values> values = group.RandomOfAll(round % 2 == 0 ? 100 : 60);
    group.Round(request, values);
    ExchangeReference& reference = round % 2 == 0 ? first : second;
    EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values))) << "round " << round;
  }
}

TEST(DirectExchangeTest, RolledBackRoundsNeverWere) {
  const ExchangeConfig config = Small("onebit", true);
  ExchangeGroup group(3, 10, config);
  ExchangeReference reference(config, 3, 48);
  for (std::uint64_t round = 1; round <= 30; ++round) {
    ExchangeRequest request{round, 0, Ones(3), Combine::kSum, nullptr};
    const std::vector<Values> values = group.RandomOfAll(200);
    group.Round(request, values);
    if (round % 3 != 0) {
      for (auto& exchange : group.exchange_) exchange->Rollback();
      continue;
    }
    EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values))) << "round " << round;
    group.Commit();
  }
}

TEST(DirectExchangeTest, AFailedSumLeavesNoTrace) {
  const ExchangeConfig config = Small("onebit", true);
  ExchangeGroup group(2, 11, config);
  ExchangeReference reference(config, 2, 48);
  for (std::uint64_t round = 1; round <= 9; ++round) {
    ExchangeRequest request{round, 0, Ones(2), Combine::kSum, nullptr};
    std::vector<Values> values = group.RandomOfAll(200);
    if (round % 3 == 0) values[1][150] = NAN;
    group.Round(request, values);
    if (round % 3 == 0) {
      EXPECT_NE(group.StatusOf(1).message().find("not finite"), std::string::npos);
      EXPECT_FALSE(group.results_[0].has_value() && group.results_[0]->ok());
      for (auto& exchange : group.exchange_) exchange->Rollback();
      group.Drain();
      continue;
    }
    EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values))) << "round " << round;
    group.Commit();
  }
}

// Chunks are a pipeline: answers to the first travel before the last are encoded.
TEST(DirectExchangeTest, ResultsTravelWhileContributionsAreStillBeingEncoded) {
  ExchangeGroup group(3, 13, Small("direct:bits=4,bucket=16"));
  std::vector<int> contributions(3), before_first_result(3, -1);
  group.links_->tap = [&](test_support::MemoryGroup::Message* message) {
    const MessageHeader header = ParseMessageHeader(message->payload.bytes()).value();
    int& before = before_first_result[message->from];
    if (header.phase == Phase::kContribution) ++contributions[message->from];
    if (header.phase == Phase::kResult && before < 0) before = contributions[message->from];
    return true;
  };
  for (std::size_t r = 0; r < 3; ++r) {
    group.Start(r, {1, 0, Ones(3), Combine::kSum, Shared(group.Random(4800))});
  }
  group.Drain();
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_NEAR(contributions[r], 2 * 4800 / 3 / 48, 2);
    EXPECT_GT(before_first_result[r], 0);
    EXPECT_LT(before_first_result[r], contributions[r] / 2) << "member " << r;
  }
}

// The fields that members of other versions must agree on.
TEST(DirectExchangeTest, HeadersArePinned) {
  ExchangeConfig config = Small("onebit:bucket=8", true);
  config.result_codec = "direct:bucket=16,bits=4";
  config.epoch = 5;
  ExchangeGroup group(2, 15, config);
  std::vector<MessageHeader> from_one;
  group.links_->tap = [&](test_support::MemoryGroup::Message* message) {
    if (message->from == 1) {
      EXPECT_EQ(message->tag, 9u);
      from_one.push_back(ParseMessageHeader(message->payload.bytes()).value());
    }
    return true;
  };
  group.Round({9, 7, {3, 4}, Combine::kWeightedMean, nullptr}, group.RandomOfAll(160));
  ASSERT_EQ(from_one.size(), 4u);  // two chunks of member 0's shard, two of its own
  MessageHeader header;
  header.phase = Phase::kContribution;
  header.combine = Combine::kWeightedMean;
  header.chunk = 1;
  header.method = MethodId("direct onebit:bucket=8 direct:bits=4,bucket=16 row=16 feedback=1");
  header.round = 9;
  header.epoch = 5;
  header.first_value = 48;
  header.values = 32;
  header.tensor = 7;
  header.weight = 4;
  EXPECT_EQ(std::count(from_one.begin(), from_one.end(), header), 1);
  header.phase = Phase::kResult;
  header.first_value = 128;
  header.weight = 7;
  EXPECT_EQ(std::count(from_one.begin(), from_one.end(), header), 1);
}

// A member that is far ahead waits for answers: what is on the way stays bounded.
TEST(DirectExchangeTest, ContributionsStayWithinTheWindow) {
  ExchangeConfig config = Small("raw:dtype=fp32");
  config.window_bytes = 0;  // four chunks
  ExchangeGroup group(3, 14, config);
  std::vector<std::vector<int>> ahead(3, std::vector<int>(3));  // by sender, owner
  group.links_->tap = [&](test_support::MemoryGroup::Message* message) {
    const MessageHeader header = ParseMessageHeader(message->payload.bytes()).value();
    if (header.phase == Phase::kContribution) {
      EXPECT_LE(++ahead[message->from][message->to], 4);
    } else {
      --ahead[message->to][message->from];
    }
    return true;
  };
  const std::vector<Values> values = group.RandomOfAll(4800);
  group.Round(1, Ones(3), values);
  EXPECT_TRUE(SameBits(group.Agreed(), RankOrderSum(values, Ones(3))));
  // Without member 2 the others stop, and know for whom, though they wait for each other's answers.
  for (std::size_t r = 0; r < 2; ++r) {
    group.Start(r, {2, 0, Ones(3), Combine::kSum, Shared(values[r])});
  }
  ahead.assign(3, std::vector<int>(3));
  group.Drain();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(group.exchange_[r]->Awaited(), std::vector<std::size_t>{2});
    EXPECT_EQ(group.exchange_[r]->traffic().sent_messages, 8u);
  }
}

// A member sends larger shards in proportionally larger portions, so that all shards finish
// together. It sends no shard more than a window beyond the answers of the slowest owner.
TEST(DirectExchangeTest, AllShardsAdvanceInStep) {
  ExchangeConfig config = Small("raw:dtype=fp32");
  config.window_bytes = 0;  // four chunks
  config.shares = {1, 2, 1};
  ExchangeGroup group(3, 14, config);
  constexpr int kSmallShard = 4800 / 4 / 48, kLargeShard = 2 * kSmallShard;
  std::vector<int> sent(3);  // contributions of member 0, by owner
  bool lose = false;
  group.links_->tap = [&](test_support::MemoryGroup::Message* message) {
    const MessageHeader header = ParseMessageHeader(message->payload.bytes()).value();
    if (header.phase != Phase::kContribution) return true;
    if (message->from == 0) {
      ++sent[message->to];
      EXPECT_LE(std::abs(kSmallShard * sent[1] - kLargeShard * sent[2]), 2 * kLargeShard);
    }
    return !lose || message->to != 2;
  };
  const std::vector<Values> values = group.RandomOfAll(4800);
  group.Round(1, Ones(3), values);
  EXPECT_EQ(sent, (std::vector<int>{0, kLargeShard, kSmallShard}));
  EXPECT_TRUE(SameBits(group.Agreed(), RankOrderSum(values, Ones(3))));
  // An owner that hears nothing answers nothing, whoever else does.
  sent = {0, 0, 0};
  lose = true;
  for (std::size_t r = 0; r < 3; ++r) {
    group.Start(r, {2, 0, Ones(3), Combine::kSum, Shared(values[r])});
  }
  group.Drain();
  EXPECT_EQ(sent, (std::vector<int>{0, 8, 4}));
}

struct Theory {
  const char* codec;
  double bits;  // a value, each way
};

TEST(DirectExchangeTest, WireBytesAreWithinTwoPercentOfTheory) {
  constexpr double kValues = 1e6;
  const auto values = Shared(ExchangeGroup(1, 1).Random(static_cast<std::size_t>(kValues)));
  for (const std::size_t members : {2u, 3u, 8u}) {
    for (const Theory& theory : std::initializer_list<Theory>{{"raw:dtype=fp32", 32},
                                                              {"raw:dtype=bf16", 16},
                                                              {"direct:bits=8,bucket=512", 8},
                                                              {"direct:bits=4,bucket=512", 4},
                                                              {"direct:bits=2,bucket=1024", 2},
                                                              {"onebit", 1}}) {
      ExchangeConfig config;
      config.codec = theory.codec;
      ExchangeGroup group(members, 12, config);
      std::vector<std::uint64_t> sent(members);
      group.links_->tap = [&](test_support::MemoryGroup::Message* message) {
        EXPECT_LE(message->payload.size(), config.chunk_bytes);
        sent[message->from] += message->payload.size();
        return true;
      };
      for (std::size_t r = 0; r < members; ++r) {
        group.Start(r, {1, 0, Ones(members), Combine::kSum, values});
      }
      group.Drain();
      const double d = static_cast<double>(members);
      const double expected = 2 * (d - 1) / d * kValues * theory.bits / 8;
      for (std::size_t r = 0; r < members; ++r) {
        EXPECT_TRUE(group.StatusOf(r).ok());
        const ExchangeTraffic traffic = group.exchange_[r]->traffic();
        EXPECT_NEAR(static_cast<double>(traffic.sent_bytes), expected, 0.02 * expected)
            << theory.codec << ", member " << r << " of " << members;
        EXPECT_EQ(traffic.sent_bytes, sent[r]);
        EXPECT_NEAR(static_cast<double>(traffic.received_bytes), expected, 0.02 * expected);
      }
    }
  }
}

// The tied embedding has copies at both ends of D pipelines. One group of 2D members sends up to a
// third less than a sum over each stage group and a swap of the two ends' sums (Optimus-CC, section
// 6).
TEST(DirectExchange, OneGroupOfBothEndsSendsLessThanTwoSteps) {
  constexpr std::size_t kValues = 16 * 840;  // shards of one size for 2 to 8 members
  for (const std::size_t pipelines : {2, 4}) {
    const auto sent = [&](std::size_t members) {
      ExchangeGroup group(members, 3, Small("raw:dtype=fp32"));
      group.Round(1, Ones(members), group.RandomOfAll(kValues));
      EXPECT_FALSE(group.Agreed().empty());
      std::uint64_t payload = 0;
      for (auto& exchange : group.exchange_) {
        const ExchangeTraffic traffic = exchange->traffic();
        payload += traffic.sent_bytes - traffic.sent_messages * kMessageHeaderBytes;
      }
      return static_cast<double>(payload) / (kValues * sizeof(float));
    };
    const auto d = static_cast<double>(pipelines);
    const double one = sent(2 * pipelines), two = 2 * sent(pipelines) + 2 * d;
    // In sum over the 2D peers.
    EXPECT_NEAR(one, 2 * (2 * d - 1), 0.01 * one);
    EXPECT_NEAR(two, 2 * (3 * d - 2), 0.01 * two);
    if (pipelines == 4) {
      EXPECT_NEAR(1 - one / two, 0.3, 0.01);
    }
  }
}

TEST(DirectExchangeTest, LargeVectorsOfFewBitsGoInLargerChunks) {
  const auto chunk_of = [](const char* codec, std::size_t values, std::size_t members) {
    ExchangeConfig config;
    config.codec = codec;
    const ExchangeCoders coders = CheckedCoders(config, members).value();
    return ChunkValuesOf(config, coders, ChunkValues(config, coders), values, members);
  };
  EXPECT_EQ(chunk_of("onebit", 100'000'000, 8), 4u << 17);
  EXPECT_EQ(chunk_of("onebit", 70'000'000, 8), 2u << 17);
  EXPECT_EQ(chunk_of("onebit", 10'000'000, 8), 1u << 17);
  EXPECT_EQ(chunk_of("direct:bits=4,bucket=512", 100'000'000, 2), 2u << 17);  // 4: 266 KB
  EXPECT_EQ(chunk_of("direct:bits=8,bucket=1024", 100'000'000, 2), 1u << 17);
  EXPECT_EQ(chunk_of("raw:dtype=fp32", 100'000'000, 2), chunk_of("raw:dtype=fp32", 1000, 2));

  const ExchangeConfig config = Small("onebit", true);
  for (const auto& [count, chunk] : {std::pair{5000u, 48u}, {10000u, 96u}, {20000u, 192u}}) {
    ExchangeGroup group(3, 21, config);
    ExchangeReference reference(config, 3, chunk);
    const ShardLayout layout(count, std::vector<double>(3, 1), config.row, chunk);
    for (std::uint64_t round = 1; round <= 3; ++round) {
      const ExchangeRequest request{round, 0, Ones(3), Combine::kWeightedMean, nullptr};
      const std::vector<Values> values = group.RandomOfAll(count);
      group.Round(request, values);
      group.Commit();
      EXPECT_TRUE(SameBits(group.Agreed(), reference.Round(request, values))) << count;
      EXPECT_EQ(group.exchange_[0]->traffic().sent_messages,
                layout.chunks(1) + layout.chunks(2) + 2 * layout.chunks(0));
    }
  }
}

}  // namespace
}  // namespace shoal::collective
