// Exchanges whose owners change the sums, and those of which only one half runs.

#include <cmath>
#include <numeric>

#include "replica/collective/exchange_message.h"
#include "replica/collective/shard_layout.h"
#include "tests/unit/replica/collective/exchange_group.h"
#include "tests/unit/replica/collective/exchange_reference.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;
using Weights = std::vector<std::uint64_t>;

ExchangeConfig Config(const char* codec = "raw:dtype=fp32") {
  ExchangeConfig config;
  config.codec = codec;
  config.row = 16;
  config.chunk_values = 48;
  config.seed = 5;
  return config;
}

ExchangeRequest Request(std::uint64_t round, Weights weights, CollectiveOp op,
                        Transform transform = nullptr) {
  ExchangeRequest request;
  request.round = round;
  request.weights = std::move(weights);
  request.op = op;
  request.transform = std::move(transform);
  return request;
}

// Depends on the place, so that a wrong one shows.
Status Bend(std::size_t first, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.5F * values[i] + static_cast<float>(first + i);
  }
  return Status::Ok();
}

// The members' results put together as what all shards are; every one is checked.
Values Joined(ExchangeGroup* group, const ExchangeRequest& request, const ExchangeConfig& config,
              std::size_t values) {
  if (request.op != CollectiveOp::kReduceScatter) return group->Agreed();
  const auto shards = Shards(values, request.weights, config.shares, config.row);
  Values all;
  for (std::size_t r = 0; r < group->size(); ++r) {
    const Values own = group->ValuesOf(r);
    EXPECT_EQ(own.size(), shards[r].size());
    EXPECT_EQ(all.size(), shards[r].begin);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

struct FlowCase {
  const char* codec;
  bool feedback, result_feedback;
};

class Flows : public testing::TestWithParam<FlowCase> {
 protected:
  static ExchangeConfig ConfigOf(const FlowCase& param) {
    ExchangeConfig config = Config(param.codec);
    config.error_feedback = param.feedback;
    config.result_feedback = param.result_feedback;
    return config;
  }
};

TEST_P(Flows, EqualTheReferenceWithAndWithoutATransformAmongOneToSixMembers) {
  const ExchangeConfig config = ConfigOf(GetParam());
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    for (const bool bend : {false, true}) {
      for (std::size_t members = 1; members <= 6; ++members) {
        ExchangeGroup group(members, 11 * static_cast<unsigned>(members), config);
        ExchangeReference reference(config, members, 48);
        const std::size_t count = members == 4 ? 30 : 501;
        Weights weights(members, 2);
        if (members > 2) weights[1] = 0;
        for (std::uint64_t round = 1; round <= 4; ++round) {
          const std::vector<Values> values = group.RandomOfAll(count);
          ExchangeRequest request = Request(round, weights, op, bend ? Bend : Transform());
          if (round == 4) request.combine = Combine::kWeightedMean;
          group.Round(request, values);
          group.Commit();
          EXPECT_TRUE(
              SameBits(Joined(&group, request, config, count), reference.Round(request, values)))
              << "operation " << static_cast<int>(op) << ", " << members << " members, round "
              << round;
        }
      }
    }
  }
}

TEST_P(Flows, AnAbortAtEachMessageThenARetryWithoutAMemberEqualsAFreshExchange) {
  const ExchangeConfig config = ConfigOf(GetParam());
  constexpr std::size_t kMembers = 4, kValues = 217;
  const Weights all(kMembers, 1), without_two{1, 1, 0, 1};
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    ExchangeGroup fresh(kMembers, 1, config);
    const std::vector<Values> values = fresh.RandomOfAll(kValues);
    fresh.Round(Request(1, all, op, Bend), values);
    fresh.Commit();
    std::size_t messages = 0;
    for (const auto& exchange : fresh.exchange_) messages += exchange->traffic().sent_messages;
    fresh.Round(Request(6, without_two, op, Bend), values);
    for (std::size_t last = 0; last < messages; ++last) {
      ExchangeGroup group(kMembers, static_cast<unsigned>(last), config);
      group.Round(Request(1, all, op, Bend), values);
      group.Commit();
      std::size_t sent = 0;
      group.links_->tap = [&](MemoryGroup::Message*) {
        if (sent++ == last) {
          for (auto& exchange : group.exchange_) {
            group.control_->PostAfter("abort", std::chrono::microseconds(group.random_() % 700),
                                      [&exchange] { exchange->Rollback(); });
          }
        }
        return sent != last + 1;
      };
      group.Round(Request(3, all, op, Bend), values);
      group.links_->tap = nullptr;
      for (auto& exchange : group.exchange_) exchange->Rollback();
      group.Drain();
      group.exchange_[2].reset();
      ExchangeRequest request = Request(6, without_two, op, Bend);
      for (const std::size_t r : {0u, 1u, 3u}) {
        request.values = Shared(values[r]);
        group.Start(r, request);
      }
      group.Drain();
      for (const std::size_t r : {0u, 1u, 3u}) {
        EXPECT_TRUE(SameBits(group.ValuesOf(r), fresh.ValuesOf(r)))
            << "operation " << static_cast<int>(op) << " aborted at message " << last;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Flows,
                         testing::Values(FlowCase{"raw:dtype=fp32", false, false},
                                         FlowCase{"direct:bits=4,bucket=16", true, false},
                                         FlowCase{"direct:bits=4,bucket=16", false, true},
                                         FlowCase{"dithered:step=1", false, false}),
                         [](const auto& param) {
                           return std::string(param.param.codec, 3) +
                                  std::to_string(param.param.feedback) +
                                  std::to_string(param.param.result_feedback);
                         });

TEST(ExchangeFlowTest, TheTransformSeesEveryValueOfItsOwnersShardOnce) {
  ExchangeConfig config = Config();
  config.shares = {1, 5, 2, 0};
  constexpr std::size_t kValues = 999;
  ExchangeGroup group(4, 3, config);
  const Weights weights{1, 2, 3, 4};
  const auto shards = Shards(kValues, weights, config.shares, config.row);
  std::vector<std::vector<int>> seen(4, std::vector<int>(kValues));
  for (std::size_t r = 0; r < 4; ++r) {
    ExchangeRequest request = Request(1, weights, CollectiveOp::kAllReduce,
                                      [&seen, r](std::size_t first, std::span<float> values) {
                                        EXPECT_LE(values.size(), 48u);
                                        for (std::size_t i = 0; i < values.size(); ++i) {
                                          ++seen[r][first + i];
                                        }
                                        return Status::Ok();
                                      });
    request.values = Shared(Values(kValues, 1));
    group.Start(r, request);
  }
  group.Drain();
  EXPECT_EQ(group.Agreed(), Values(kValues, 4));
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t i = 0; i < kValues; ++i) {
      EXPECT_EQ(seen[r][i], i >= shards[r].begin && i < shards[r].end ? 1 : 0);
    }
  }
  EXPECT_EQ(shards[3].size(), 0u);
}

// Momentum and master parameters live with the owners only; what all members get is what one
// machine with all gradients computes.
TEST(ExchangeFlowTest, AShardedOptimizerStepsLikeAWholeOne) {
  constexpr std::size_t kMembers = 3, kValues = 300;
  const ExchangeConfig config = Config();
  ExchangeGroup group(kMembers, 8, config);
  const Weights weights(kMembers, 1);
  const auto shards = Shards(kValues, weights, {}, config.row);
  struct State {
    std::size_t begin = 0;
    Values momentum, parameters;
    void Step(std::size_t first, std::span<float> values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        float& m = momentum[first + i - begin];
        m = 0.9F * m + values[i];
        values[i] = parameters[first + i - begin] -= 0.1F * m;
      }
    }
  };
  const Values start = group.Random(kValues);
  State whole{0, Values(kValues), start};
  std::vector<State> sharded;
  for (const ValueRange shard : shards) {
    sharded.push_back(State{shard.begin, Values(shard.size()),
                            Values(start.begin() + static_cast<std::ptrdiff_t>(shard.begin),
                                   start.begin() + static_cast<std::ptrdiff_t>(shard.end))});
  }
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const std::vector<Values> gradients = group.RandomOfAll(kValues);
    for (std::size_t r = 0; r < kMembers; ++r) {
      ExchangeRequest request =
          Request(round, weights, CollectiveOp::kAllReduce,
                  [state = &sharded[r]](std::size_t first, std::span<float> values) {
                    state->Step(first, values);
                    return Status::Ok();
                  });
      request.values = Shared(gradients[r]);
      group.Start(r, request);
    }
    group.Drain();
    Values sum = gradients[0];
    for (std::size_t r = 1; r < kMembers; ++r) {
      for (std::size_t i = 0; i < kValues; ++i) sum[i] += gradients[r][i];
    }
    whole.Step(0, sum);
    ASSERT_TRUE(SameBits(group.Agreed(), whole.parameters)) << "round " << round;
  }
}

TEST(ExchangeFlowTest, AnErrorOfTheTransformEndsTheRoundAndLeavesNothing) {
  ExchangeConfig config = Config("direct:bits=2,bucket=16");
  config.error_feedback = true;
  ExchangeGroup group(2, 4, config), quiet(2, 4, config);
  const std::vector<Values> values = group.RandomOfAll(200);
  for (std::size_t r = 0; r < 2; ++r) {
    ExchangeRequest request =
        Request(1, {1, 1}, CollectiveOp::kAllReduce, [r](std::size_t first, std::span<float>) {
          return r == 1 && first > 120 ? InvalidArgument("the step is too large") : Status::Ok();
        });
    request.values = Shared(values[r]);
    group.Start(r, request);
  }
  group.Drain();
  EXPECT_EQ(group.StatusOf(1).code(), StatusCode::kInvalidArgument);
  EXPECT_NE(group.StatusOf(1).message().find("too large"), std::string::npos);
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kUnavailable);  // waits
  for (auto& exchange : group.exchange_) exchange->Rollback();
  group.Drain();
  group.Round(2, {1, 1}, values);
  quiet.Round(2, {1, 1}, values);
  EXPECT_TRUE(SameBits(group.Agreed(), quiet.Agreed()));
}

TEST(ExchangeFlowTest, AGatherSendsEachShardOnceAndNeedsNoVector) {
  ExchangeConfig config = Config();
  config.shares = {3, 1, 0};
  ExchangeGroup group(3, 6, config);
  constexpr std::size_t kValues = 640;
  const auto shards = Shards(kValues, Weights{1, 1, 1}, config.shares, config.row);
  ExchangeRequest request = Request(1, {1, 1, 1}, CollectiveOp::kAllGather,
                                    [](std::size_t first, std::span<float> values) {
                                      for (const float value : values) EXPECT_EQ(value, 0);
                                      std::iota(values.begin(), values.end(), float(first));
                                      return Status::Ok();
                                    });
  request.count = kValues;
  for (std::size_t r = 0; r < 3; ++r) group.Start(r, request);
  group.Drain();
  Values expected(kValues);
  std::iota(expected.begin(), expected.end(), 0.0F);
  EXPECT_EQ(group.Agreed(), expected);
  for (std::size_t r = 0; r < 3; ++r) {
    const std::size_t chunks = (shards[r].size() + 47) / 48;
    EXPECT_EQ(group.exchange_[r]->traffic().sent_bytes,
              2 * (4 * shards[r].size() + chunks * kMessageHeaderBytes));
  }
}

TEST(ExchangeFlowTest, AScatterAnswersWithHeadersOnly) {
  const ExchangeConfig config = Config();
  ExchangeGroup group(3, 6, config);
  const std::vector<Values> values = group.RandomOfAll(3 * 96);
  group.Round(Request(1, {1, 1, 1}, CollectiveOp::kReduceScatter), values);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(group.exchange_[r]->traffic().sent_bytes, 2 * 4 * 96 + 8 * kMessageHeaderBytes);
    EXPECT_EQ(group.ValuesOf(r).size(), 96u);
  }
}

TEST(ExchangeFlowTest, AGatherStaysWithinTheWindow) {
  ExchangeConfig config = Config();
  config.window_bytes = 0;  // four chunks
  config.shares = {1, 2, 1};
  ExchangeGroup group(3, 14, config);
  const std::vector<int> chunks{25, 50, 25};
  std::vector<int> sent(3);
  group.links_->tap = [&](MemoryGroup::Message* message) {
    const std::size_t from = message->from;
    if (message->to == (from + 1) % 3) ++sent[from];
    for (std::size_t r = 0; r < 3; ++r) {  // as parts of their shards
      if (sent[r] == chunks[r]) continue;
      EXPECT_LE(sent[from] * chunks[r], (sent[r] + 4) * chunks[from] + chunks[r]);
    }
    return true;
  };
  const std::vector<Values> values = group.RandomOfAll(4800);
  const ExchangeRequest request = Request(1, {1, 1, 1}, CollectiveOp::kAllGather);
  group.Round(request, values);
  Values expected;
  const auto shards = Shards(4800, request.weights, config.shares, config.row);
  for (std::size_t r = 0; r < 3; ++r) {
    expected.insert(expected.end(), values[r].begin() + static_cast<long>(shards[r].begin),
                    values[r].begin() + static_cast<long>(shards[r].end));
  }
  EXPECT_TRUE(SameBits(group.Agreed(), expected));
  // Without member 2 the others stop, and know for whom.
  sent = {0, 0, 0};
  for (std::size_t r = 0; r < 2; ++r) {
    ExchangeRequest next = Request(2, {1, 1, 1}, CollectiveOp::kAllGather);
    next.values = Shared(values[r]);
    group.Start(r, next);
  }
  group.Drain();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(group.exchange_[r]->Awaited(), std::vector<std::size_t>{2});
    EXPECT_EQ(group.exchange_[r]->traffic().sent_messages, r == 0 ? 8u : 16u);
  }
}

TEST(ExchangeFlowTest, MembersWithOtherFlowsOrWithoutTheTransformDoNotMix) {
  for (const int what : {0, 1, 2}) {
    ExchangeGroup group(2, 4, Config());
    ExchangeRequest request = Request(7, {1, 1}, CollectiveOp::kAllReduce);
    request.values = Shared(group.Random(70));
    group.Start(0, request);
    if (what == 0) request.transform = Bend;
    if (what == 1) request.op = CollectiveOp::kAllGather;
    if (what == 2) request.op = CollectiveOp::kReduceScatter;
    group.Start(1, request);
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument) << what;
    EXPECT_FALSE(group.StatusOf(1).ok()) << what;
  }
}

TEST(ExchangeFlowTest, AContributionInAGatherIsRefused) {
  ExchangeGroup group(2, 4, Config());
  group.links_->tap = [&, changed = false](MemoryGroup::Message* message) mutable {
    if (message->from == 0 || std::exchange(changed, true)) return true;
    MessageHeader header = ParseMessageHeader(message->payload.bytes()).value();
    header.phase = Phase::kContribution;
    header.first_value = 0;
    header.weight = 1;
    SealMessage(header, message->payload.bytes());
    return true;
  };
  group.Round(Request(1, {1, 1}, CollectiveOp::kAllGather), group.RandomOfAll(64));
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument) << group.StatusOf(0).ToString();
}

TEST(ExchangeFlowTest, ValuesMayOnlyBeMissingWhereATransformMakesThem) {
  ExchangeGroup group(2, 4, Config());
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
    ExchangeRequest request =
        Request(1, {1, 1}, op, op == CollectiveOp::kAllGather ? nullptr : Bend);
    request.count = 10;
    group.Start(0, request);
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
  }
}

// Levels are learned on the way: tables change between rounds, error memories go on.
TEST(ExchangeFlowTest, ARoundMayHaveCodecsOfItsOwn) {
  ExchangeConfig config = Config("learned:bits=2,bucket=16");
  config.error_feedback = true;
  ExchangeGroup group(3, 4, config);
  constexpr std::size_t kValues = 300;
  std::vector<double> in(kValues), out(kValues);
  std::vector<std::string> specs = {"", "learned:bits=2,bucket=16,levels=2000600090009100",
                                    "learned:bits=3,bucket=16", ""};
  for (std::uint64_t round = 1; round <= specs.size(); ++round) {
    const std::vector<Values> values = group.RandomOfAll(kValues);
    ExchangeRequest request = Request(round, {1, 1, 1}, CollectiveOp::kAllReduce);
    request.codec = specs[round - 1];
    if (round == specs.size()) request.result_codec = "raw:dtype=fp32";
    group.Round(request, values);
    group.Commit();
    ExchangeConfig named = config;
    if (!request.codec.empty()) named.codec = request.codec;
    named.result_codec = request.result_codec;
    const Values agreed = group.Agreed();
    if (round == 1) {
      EXPECT_TRUE(SameBits(agreed, ExchangeReference(named, 3, 48).Round(request, values)));
    }
    for (std::size_t i = 0; i < kValues; ++i) {
      for (const Values& member : values) in[i] += member[i];
      out[i] += agreed[i];
    }
  }
  // An exact round sends all that is left.
  ExchangeRequest rest = Request(9, {1, 1, 1}, CollectiveOp::kAllReduce);
  rest.codec = rest.result_codec = "raw:dtype=fp32";
  group.Round(rest, std::vector<Values>(3, Values(kValues)));
  const Values last = group.Agreed();
  for (std::size_t i = 0; i < kValues; ++i) EXPECT_NEAR(in[i], out[i] + last[i], 2e-3);
  group.Commit();
  rest.round = 10;
  group.Round(rest, std::vector<Values>(3, Values(kValues)));
  EXPECT_EQ(group.Agreed(), Values(kValues));
}

TEST(ExchangeFlowTest, MembersWithOtherTablesOfLevelsDoNotMix) {
  ExchangeGroup group(2, 4, Config("learned:bits=2,bucket=16"));
  ExchangeRequest request = Request(7, {1, 1}, CollectiveOp::kAllReduce);
  request.values = Shared(group.Random(70));
  group.Start(0, request);
  request.codec = "learned:bits=2,bucket=16,levels=2000600090009100";
  group.Start(1, request);
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(group.StatusOf(1).ok());
}

TEST(ExchangeFlowTest, CodecsOfARoundMustFitTheChunks) {
  ExchangeConfig config = Config("onebit");
  config.chunk_bytes = 100;  // 64 of header, and signs of up to 48 values
  ExchangeGroup group(2, 4, config);
  ExchangeRequest request = Request(1, {1, 1}, CollectiveOp::kAllReduce);
  request.values = Shared(group.Random(70));
  for (const char* codec : {"raw:dtype=fp32", "nothing", "aqsgd:bits=4"}) {
    request.codec = codec;
    group.Start(0, request);
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument) << codec;
  }
}

}  // namespace
}  // namespace shoal::collective
