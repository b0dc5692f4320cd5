#include "replica/collective/direct/hierarchical_exchange.h"

#include <cmath>
#include <tuple>

#include "replica/collective/exchange_message.h"
#include "tests/unit/replica/collective/exchange_group.h"
#include "tests/unit/replica/collective/exchange_reference.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;
using Weights = std::vector<std::uint64_t>;

HierarchicalConfig Config(LanGroups groups, const char* codec = "raw:dtype=fp32",
                          bool feedback = false) {
  HierarchicalConfig config;
  config.groups = std::move(groups);
  config.exchange.codec = codec;
  config.exchange.error_feedback = feedback;
  config.exchange.row = 16;
  config.exchange.chunk_values = 48;
  config.exchange.seed = 5;
  return config;
}

ExchangeGroup::Make Maker(const HierarchicalConfig& config) {
  return [config](GroupChannel* channel, Executor* control, Executor* compute) {
    return NewHierarchicalExchange(config, channel, control, compute);
  };
}

ExchangeRequest Request(std::uint64_t round, Weights weights, Combine combine = Combine::kSum) {
  ExchangeRequest request;
  request.round = round;
  request.weights = std::move(weights);
  request.combine = combine;
  return request;
}

// What the leaders contribute, LAN after LAN, and the weights they have: plain loops.
struct LanSums {
  std::vector<Values> values;
  Weights weights;
};
LanSums SumLans(const HierarchicalConfig& config, const ExchangeRequest& request,
                const std::vector<Values>& values) {
  std::vector<std::size_t> leaders = LanLeaders(config.groups, request.weights);
  std::sort(leaders.begin(), leaders.end());
  LanSums sums;
  for (const std::size_t leader : leaders) {
    double weight = 0;
    std::size_t members = 0;
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (config.groups[r] != config.groups[leader]) continue;
      weight += static_cast<double>(request.weights[r]);
      ++members;
    }
    Values sum(values[0].size());
    bool first = true;
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (config.groups[r] != config.groups[leader] || request.weights[r] == 0) continue;
      const bool mean = request.combine == Combine::kWeightedMean && members > 1;
      const auto share =
          mean ? static_cast<float>(static_cast<double>(request.weights[r]) / weight) : 1.0F;
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] = first ? values[r][i] * share : sum[i] + values[r][i] * share;
      }
      first = false;
    }
    sums.values.push_back(sum);
    sums.weights.push_back(static_cast<std::uint64_t>(weight));
  }
  return sums;
}

struct Case {
  const char* name;
  LanGroups groups;
  Weights weights;
};

const Case kCases[] = {{"two_lans", {0, 0, 1, 1}, {1, 2, 3, 4}},
                       {"mixed", {0, 1, 0, 2, 1, 0}, {1, 1, 1, 1, 1, 1}},
                       {"one_lan", {0, 0, 0}, {1, 1, 2}},
                       {"all_alone", {0, 1, 2}, {2, 1, 2}},
                       {"single", {0}, {1}},
                       {"first_listens", {0, 0, 1, 1}, {0, 2, 3, 0}},
                       {"a_lan_listens", {0, 0, 1, 1, 2}, {1, 1, 0, 0, 1}}};

struct Coding {
  const char* codec;
  bool feedback;
};

class Hierarchical : public testing::TestWithParam<std::tuple<Case, Coding>> {};

TEST_P(Hierarchical, EqualsADirectExchangeOfTheSumsOfLans) {
  const auto& [test, coding] = GetParam();
  const HierarchicalConfig config = Config(test.groups, coding.codec, coding.feedback);
  ExchangeGroup group(test.groups.size(), 3, Maker(config));
  std::optional<ExchangeReference> reference;
  for (std::uint64_t round = 1; round <= 12; ++round) {
    const ExchangeRequest request =
        Request(round, test.weights, round % 2 == 0 ? Combine::kWeightedMean : Combine::kSum);
    const std::vector<Values> values = group.RandomOfAll(317);
    group.Round(request, values);
    group.Commit();
    LanSums sums = SumLans(config, request, values);
    if (!reference) reference.emplace(config.exchange, sums.values.size(), 48);
    ExchangeRequest between = request;
    between.weights = sums.weights;
    ASSERT_TRUE(SameBits(group.Agreed(), reference->Round(between, sums.values)))
        << "round " << round;
  }
}

TEST_P(Hierarchical, AScatterLeavesWithEachLeaderItsShardOfThat) {
  const auto& [test, coding] = GetParam();
  const HierarchicalConfig config = Config(test.groups, coding.codec, coding.feedback);
  ExchangeGroup group(test.groups.size(), 3, Maker(config));
  std::optional<ExchangeReference> reference;
  for (std::uint64_t round = 1; round <= 6; ++round) {
    ExchangeRequest request = Request(round, test.weights);
    request.op = CollectiveOp::kReduceScatter;
    const std::vector<Values> values = group.RandomOfAll(317);
    group.Round(request, values);
    group.Commit();
    LanSums sums = SumLans(config, request, values);
    if (!reference) reference.emplace(config.exchange, sums.values.size(), 48);
    ExchangeRequest between = request;
    between.weights = sums.weights;
    const Values agreed = reference->Round(between, sums.values);
    const auto shards =
        HierarchicalShards(317, config.groups, test.weights, {}, config.exchange.row);
    for (std::size_t r = 0; r < group.size(); ++r) {
      const Values own(agreed.begin() + static_cast<std::ptrdiff_t>(shards[r].begin),
                       agreed.begin() + static_cast<std::ptrdiff_t>(shards[r].end));
      ASSERT_TRUE(SameBits(group.ValuesOf(r), own)) << "round " << round << ", member " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Hierarchical,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(Coding{"raw:dtype=fp32", false},
                                                          Coding{"direct:bits=4,bucket=16", true},
                                                          Coding{"dithered:step=1", false})),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) + "_" +
                                  std::string(std::get<1>(param.param).codec, 3);
                         });

class HierarchicalAbort : public testing::TestWithParam<Coding> {};

// A member of a LAN goes, or the one that leads it.
TEST_P(HierarchicalAbort, AtEachMessageThenARetryWithoutAMemberEqualsAFreshExchange) {
  const LanGroups groups{0, 1, 0, 1, 2};
  const HierarchicalConfig config = Config(groups, GetParam().codec, GetParam().feedback);
  const Weights all(5, 1);
  for (const std::size_t gone : {0u, 2u, 3u}) {
    Weights without = all;
    without[gone] = 0;
    ExchangeGroup fresh(5, 1, Maker(config));
    const std::vector<Values> values = fresh.RandomOfAll(130);
    fresh.Round(Request(5, all), values);
    std::size_t messages = 0;
    for (const auto& exchange : fresh.exchange_) messages += exchange->traffic().sent_messages;
    ASSERT_GT(messages, 20u);
    ExchangeGroup expected(5, 1, Maker(config));
    expected.Round(Request(6, without), values);
    const Values agreed = expected.Agreed();
    std::size_t aborted = 0;
    for (std::size_t last = 0; last < messages; ++last) {
      ExchangeGroup group(5, static_cast<unsigned>(last), Maker(config));
      if (groups[gone] != 2 && gone == 0) {
        group.Round(Request(1, all), values);  // memories that a change of leaders drops
        group.Commit();
      }
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
      group.Round(Request(3, all), values);
      group.links_->tap = nullptr;
      for (auto& exchange : group.exchange_) exchange->Rollback();
      group.Drain();
      for (std::size_t r = 0; r < 5; ++r) aborted += group.StatusOf(r).ok() ? 0 : 1;
      group.exchange_[gone].reset();
      ExchangeRequest request = Request(6, without);
      for (std::size_t r = 0; r < 5; ++r) {
        if (r == gone) continue;
        request.values = Shared(values[r]);
        group.Start(r, request);
      }
      group.Drain();
      for (std::size_t r = 0; r < 5; ++r) {
        if (r == gone) continue;
        EXPECT_TRUE(SameBits(group.ValuesOf(r), agreed))
            << "member " << gone << " gone, aborted at message " << last;
      }
    }
    EXPECT_GT(aborted, messages);
  }
}

TEST_P(HierarchicalAbort, AtEachMessageThenARetryOfAllIsAsIfThereWasNone) {
  const HierarchicalConfig config = Config({0, 1, 0, 1}, GetParam().codec, GetParam().feedback);
  const Weights all(4, 1), without_leader{0, 1, 1, 1};
  ExchangeGroup quiet(4, 1, Maker(config));
  const std::vector<Values> values = quiet.RandomOfAll(130);
  quiet.Round(Request(1, all), values);
  quiet.Commit();
  quiet.Round(Request(4, all), values);
  std::size_t messages = 0;
  for (const auto& exchange : quiet.exchange_) messages += exchange->traffic().sent_messages;
  for (std::size_t last = 0; last < messages; ++last) {
    ExchangeGroup group(4, static_cast<unsigned>(last), Maker(config));
    group.Round(Request(1, all), values);
    group.Commit();
    std::size_t sent = 0;
    group.links_->tap = [&](MemoryGroup::Message*) { return sent++ != last; };
    // A round with other leaders leaves the memories of these as they were, too.
    group.Round(Request(3, last % 2 == 0 ? all : without_leader), values);
    group.links_->tap = nullptr;
    for (auto& exchange : group.exchange_) exchange->Rollback();
    group.Drain();
    group.Round(Request(4, all), values);
    EXPECT_TRUE(SameBits(group.Agreed(), quiet.Agreed())) << "lost message " << last;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, HierarchicalAbort,
                         testing::Values(Coding{"raw:dtype=fp32", false}, Coding{"onebit", true},
                                         Coding{"dithered:step=1", false}),
                         [](const auto& param) { return std::string(param.param.codec, 3); });

// What was agreed and what is in the leaders' memories is what was put in.
TEST(HierarchicalTest, MemoriesTelescope) {
  const HierarchicalConfig config = Config({0, 0, 1, 1, 2}, "direct:bits=2,bucket=16", true);
  ExchangeGroup group(5, 8, Maker(config));
  ExchangeReference reference(config.exchange, 3, 48);
  constexpr std::size_t kValues = 200;
  std::vector<double> in(kValues), out(kValues);
  double scale = 0;
  for (std::uint64_t round = 1; round <= 50; ++round) {
    const ExchangeRequest request = Request(round, Weights(5, 1));
    const std::vector<Values> values = group.RandomOfAll(kValues);
    group.Round(request, values);
    group.Commit();
    const LanSums sums = SumLans(config, request, values);
    ExchangeRequest between = request;
    between.weights = Weights{2, 2, 1};
    const Values agreed = group.Agreed();
    ASSERT_TRUE(SameBits(agreed, reference.Round(between, sums.values)));
    for (std::size_t i = 0; i < kValues; ++i) {
      for (const Values& member : values) {
        in[i] += member[i];
        scale += std::abs(member[i]) / kValues;
      }
      out[i] += agreed[i];
    }
  }
  for (std::size_t i = 0; i < kValues; ++i) {
    double rest = reference.server_error()[i];
    for (std::size_t r = 0; r < 3; ++r) rest += reference.worker_error(r)[i];
    EXPECT_LE(std::abs(in[i] - out[i] - rest), 1e-6 * scale);
  }
}

// Between LANs only leaders send, and no more than in a direct exchange among them.
TEST(HierarchicalTest, OnlyLeadersSendToOtherLans) {
  const LanGroups groups{0, 0, 0, 1, 1, 1};
  const HierarchicalConfig config = Config(groups);
  ExchangeGroup group(6, 4, Maker(config));
  std::size_t between = 0, inside = 0;
  group.links_->tap = [&](MemoryGroup::Message* message) {
    if (groups[message->from] != groups[message->to]) {
      EXPECT_TRUE(message->from % 3 == 0 && message->to % 3 == 0);
      between += message->payload.size();
    } else {
      inside += message->payload.size();
    }
    return true;
  };
  group.Round(Request(1, Weights(6, 1)), group.RandomOfAll(960));
  EXPECT_EQ(between, 2 * 4 * 960 + 40 * kMessageHeaderBytes);  // two halves, there and back
  EXPECT_EQ(inside, 4 * 2 * 4 * 960 + 4 * 3 * 20 * kMessageHeaderBytes);
  std::uint64_t sent = 0;
  for (const auto& exchange : group.exchange_) sent += exchange->traffic().sent_bytes;
  EXPECT_EQ(sent, between + inside);
}

TEST(HierarchicalTest, TransformsRunAtLeadersOnTheirShards) {
  const LanGroups groups{0, 1, 0, 1, 2};
  HierarchicalConfig config = Config(groups);
  config.exchange.shares = {3, 1, 1, 1, 2};
  const Weights weights(5, 1);
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather}) {
    ExchangeGroup group(5, 4, Maker(config));
    const auto shards = HierarchicalShards(500, groups, weights, config.exchange.shares, 16);
    std::vector<std::vector<int>> seen(5, std::vector<int>(500));
    for (std::size_t r = 0; r < 5; ++r) {
      ExchangeRequest request = Request(1, weights);
      request.op = op;
      request.transform = [&seen, r](std::size_t first, std::span<float> values) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          ++seen[r][first + i];
          values[i] += static_cast<float>(first + i);
        }
        return Status::Ok();
      };
      if (op == CollectiveOp::kAllReduce) {
        request.values = Shared(Values(500, 1));
      } else {
        request.count = 500;
      }
      group.Start(r, request);
    }
    group.Drain();
    const Values agreed = group.Agreed();
    for (std::size_t i = 0; i < 500; ++i) {
      EXPECT_EQ(agreed[i], static_cast<float>(i) + (op == CollectiveOp::kAllReduce ? 5 : 0));
      for (std::size_t r = 0; r < 5; ++r) {
        EXPECT_EQ(seen[r][i], i >= shards[r].begin && i < shards[r].end ? 1 : 0);
      }
    }
  }
}

TEST(HierarchicalTest, LanContributionsMayBeCodedAndDrawNumbersOfTheirOwn) {
  HierarchicalConfig config = Config({0, 0, 1, 1});
  config.lan_codec = "dithered:step=1";
  ExchangeGroup group(4, 4, Maker(config));
  const Values values = group.Random(2000);
  Values minus = values;
  for (float& value : minus) value = -value;
  // Equal draws in both LANs would cancel what is off.
  group.Round(Request(1, Weights(4, 1)), {values, values, minus, minus});
  double sum = 0;
  for (const float value : group.Agreed()) sum += double{value} * value;
  const double off = std::sqrt(sum / 2000) / 100;  // in units of the values' size
  EXPECT_NEAR(off, 0.289 * 2, 0.06);               // four draws of variance 1/12
}

TEST(HierarchicalTest, MembersOfOtherPlansDoNotMix) {
  for (const int what : {0, 1}) {
    const HierarchicalConfig config = Config({0, 0, 1, 1});
    const HierarchicalConfig other =
        Config(what == 0 ? LanGroups{0, 1, 1, 1} : LanGroups{0, 0, 1, 2});
    ExchangeGroup group(4, 4, Maker(config));
    group.exchange_[1].reset();
    group.exchange_[1] = NewHierarchicalExchange(other, group.links_->member(1),
                                                 group.control_.get(), group.compute_[1].get())
                             .value();
    ExchangeRequest request = Request(1, Weights(4, 1));
    request.values = Shared(group.Random(100));
    for (std::size_t r = 0; r < 4; ++r) group.Start(r, request);
    group.Drain();
    std::size_t failed = 0;
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_FALSE(group.StatusOf(r).ok()) << r;
      failed += group.StatusOf(r).code() == StatusCode::kInvalidArgument ? 1 : 0;
    }
    // Where member 1 leads a LAN of its own making, all wait for each other.
    EXPECT_EQ(failed > 0, what == 1);
  }
}

TEST(HierarchicalTest, WhoIsMissingIsNamed) {
  const HierarchicalConfig config = Config({0, 0, 1, 1});
  ExchangeGroup group(4, 4, Maker(config));
  ExchangeRequest request = Request(1, Weights(4, 1));
  request.values = Shared(group.Random(100));
  for (const std::size_t r : {0u, 1u, 2u}) group.Start(r, request);
  group.Drain();
  EXPECT_EQ(group.exchange_[2]->Awaited(), std::vector<std::size_t>{3});
  EXPECT_EQ(group.exchange_[0]->Awaited(), std::vector<std::size_t>{2});
  EXPECT_EQ(group.exchange_[1]->Awaited(), std::vector<std::size_t>{0});
  group.Start(3, request);
  group.Drain();
  EXPECT_EQ(group.Agreed().size(), 100u);
}

TEST(HierarchicalTest, AFloodOfEarlyMessagesIsAnErrorNotAHang) {
  HierarchicalConfig config = Config({0, 0});
  config.exchange.early_bytes_max = 2000;
  ExchangeGroup group(2, 6, Maker(config));
  for (std::uint64_t round = 9; round < 100; ++round) {
    ASSERT_TRUE(group.links_->member(1)->Send(0, 2 * round, Buffer(4)).ok());
  }
  group.Drain();
  ExchangeRequest request = Request(1, Weights(2, 1));
  request.values = Shared({1, 2, 3});
  group.Start(0, request);
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kResourceExhausted);
}

TEST(HierarchicalTest, WrongConfigsAndRequestsAreRefused) {
  ExchangeGroup group(2, 9, Maker(Config({0, 0})));
  const auto refused = [&](const HierarchicalConfig& config) {
    const auto made = NewHierarchicalExchange(config, group.links_->member(0), group.control_.get(),
                                              group.compute_[0].get());
    return !made.ok();
  };
  EXPECT_TRUE(refused(Config({0})));
  EXPECT_TRUE(refused(Config({1, 0})));
  EXPECT_TRUE(refused(Config({0, 2})));
  EXPECT_TRUE(refused(Config({0, 1}, "aqsgd:bits=4")));
  HierarchicalConfig config = Config({0, 1});
  config.lan_codec = "nothing";
  EXPECT_TRUE(refused(config));
  const auto code = [&](ExchangeRequest request) {
    group.Start(0, std::move(request));
    group.Drain();
    return group.StatusOf(0).code();
  };
  ExchangeRequest request = Request(1, {1, 1});
  request.values = Shared({1.0F});
  ExchangeRequest wrong = request;
  wrong.weights = {0, 0};
  EXPECT_EQ(code(wrong), StatusCode::kInvalidArgument);
  wrong.weights = {1, UINT64_MAX};
  EXPECT_EQ(code(wrong), StatusCode::kInvalidArgument);
  wrong = request;
  wrong.values = nullptr;
  EXPECT_EQ(code(wrong), StatusCode::kInvalidArgument);
  wrong = request;
  wrong.round = 1ull << 55;
  EXPECT_EQ(code(wrong), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(request), StatusCode::kUnavailable);  // runs
}

}  // namespace
}  // namespace shoal::collective
