// What every Exchange does: one suite, run on all kinds and on those that are made of others.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "replica/collective/direct/hierarchical_exchange.h"
#include "replica/collective/power_sgd_exchange.h"
#include "tests/unit/replica/collective/exchange_group.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;
using Weights = std::vector<std::uint64_t>;

constexpr std::size_t kMembers = 4, kValues = 20 * 24 + 5;
const Weights kAll(kMembers, 1);

// A kind of exchanges.
struct Kind {
  const char* name;
  ExchangeGroup::Make make;
  bool exact = true;   // the sum, but for rounding in fp32
  bool keeps = false;  // error memories between rounds
  bool sums_only = false;
};

ExchangeConfig Config(const char* codec, bool feedback) {
  ExchangeConfig config;
  config.codec = codec;
  config.error_feedback = feedback;
  config.reuse_memory = true;
  config.row = 16;
  config.chunk_values = 48;
  config.seed = 3;
  return config;
}

Kind Direct(const char* name, const char* codec, bool exact, bool feedback) {
  const ExchangeConfig config = Config(codec, feedback);
  const auto make = [config](GroupChannel* channel, Executor* control, Executor* compute) {
    return NewDirectExchange(config, channel, control, compute);
  };
  return {name, make, exact, feedback};
}

Kind Blending(const char* name, const char* codec) {
  const ExchangeConfig config = Config(codec, true);
  const auto make = [config](GroupChannel* channel, Executor* control,
                             Executor* compute) -> Result<std::unique_ptr<Exchange>> {
    SHOAL_ASSIGN_OR_RETURN(auto made, NewBlendingExchange(config, channel, control, compute));
    return std::unique_ptr<Exchange>(std::move(made));
  };
  return {name, make, false, true};
}

// Members 1 and 3 share a LAN; member 0 leads that of 0 and 2.
Kind Hierarchical(const char* name, const char* codec, bool exact, bool feedback) {
  HierarchicalConfig config;
  config.exchange = Config(codec, feedback);
  config.groups = {0, 1, 0, 1};
  const auto make = [config](GroupChannel* channel, Executor* control, Executor* compute) {
    return NewHierarchicalExchange(config, channel, control, compute);
  };
  return {name, make, exact, feedback};
}

// A matrix and a vector; over LANs, too. `start`: steps without factors.
Kind PowerSgd(const char* name, const Kind& sums, std::uint32_t start) {
  const auto make = [sums = sums.make, start](
                        GroupChannel* channel, Executor* control,
                        Executor* compute) -> Result<std::unique_ptr<Exchange>> {
    PowerSgdExchangeConfig config;
    config.options.rank = 3;
    config.options.start = start;
    config.rank = channel->rank();
    config.tensors = {{20, 24}, {5}};
    config.reuse_memory = true;
    SHOAL_ASSIGN_OR_RETURN(auto exact, sums(channel, control, compute));
    return NewPowerSgdExchange(config, std::move(exact), control, compute);
  };
  return {name, make, start > 0, start == 0, true};
}

const Kind kDirect = Direct("Direct", "raw:dtype=fp32", true, false);
const Kind kHierarchical = Hierarchical("Hierarchical", "raw:dtype=fp32", true, false);
const Kind kKinds[] = {
    kDirect,
    Direct("DirectOneBit", "onebit", false, true),
    Direct("DirectDithered", "dithered:step=1", false, false),
    Blending("Blending", "direct:bits=3,bucket=16,rounding=stochastic"),
    kHierarchical,
    Hierarchical("HierarchicalOneBit", "onebit", false, true),
    PowerSgd("PowerSgd", kDirect, 0),
    PowerSgd("PowerSgdOverLans", kHierarchical, 0),
    PowerSgd("PowerSgdWarmUp", kDirect, 100),
};

class ExchangeContract : public testing::TestWithParam<Kind> {
 protected:
  const Kind& kind() const { return GetParam(); }
  ExchangeGroup Group(unsigned seed) const { return {kMembers, seed, kind().make}; }

  // The same whatever happened in a group.
  static std::vector<Values> ValuesOf(std::uint64_t round) {
    std::mt19937 random(static_cast<unsigned>(round));
    std::normal_distribution<float> normal(0, 1);
    std::vector<Values> values(kMembers, Values(kValues));
    for (Values& member : values) {
      for (float& value : member) value = normal(random);
    }
    return values;
  }
  static std::vector<double> SumOf(const std::vector<Values>& values, const Weights& weights,
                                   bool mean = false) {
    double all = 0;
    for (const std::uint64_t weight : weights) all += static_cast<double>(weight);
    std::vector<double> sum(kValues);
    for (std::size_t r = 0; r < kMembers; ++r) {
      const double weight = static_cast<double>(weights[r]);
      const double factor = mean ? weight / all : (weight > 0 ? 1 : 0);
      for (std::size_t i = 0; i < kValues; ++i) sum[i] += factor * values[r][i];
    }
    return sum;
  }
  static double Norm(const std::vector<double>& values) {
    double squares = 0;
    for (const double value : values) squares += value * value;
    return std::sqrt(squares);
  }
  // Exact kinds give the sum; the others come nearer to it than nothing does.
  void ExpectNear(const Values& agreed, const std::vector<double>& sum) const {
    ASSERT_EQ(agreed.size(), sum.size());
    std::vector<double> off(sum.size());
    for (std::size_t i = 0; i < off.size(); ++i) off[i] = agreed[i] - sum[i];
    EXPECT_LT(Norm(off), (kind().exact ? 1e-6 : 0.95) * Norm(sum));
  }
  static void Drop(ExchangeGroup* group) {
    for (auto& exchange : group->exchange_) exchange->Rollback();
    group->Drain();
  }
  static ExchangeRequest Request(std::uint64_t round, const Values& values) {
    ExchangeRequest request;
    request.round = round;
    request.weights = kAll;
    request.values = Shared(values);
    return request;
  }
};

TEST_P(ExchangeContract, AllMembersGetTheSameBitsOfTheSumAndInputsStay) {
  ExchangeGroup group = Group(1), slow = Group(77);
  Values total(kValues);  // with memories, what one round leaves out another has
  std::vector<double> sums(kValues);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    const std::vector<Values> values = ValuesOf(round);
    std::vector<std::shared_ptr<const Buffer>> shared;
    for (std::size_t r = 0; r < kMembers; ++r) {
      ExchangeRequest request = Request(round, values[r]);
      shared.push_back(request.values);
      group.Start(r, std::move(request));
    }
    group.Drain();
    for (std::size_t r = 0; r < kMembers; ++r) {
      const std::span<const float> left = shared[r]->floats();
      EXPECT_TRUE(SameBits({left.begin(), left.end()}, values[r])) << "member " << r;
    }
    const Values agreed = group.Agreed();
    ASSERT_EQ(agreed.size(), kValues);
    const std::vector<double> sum = SumOf(values, kAll);
    for (std::size_t i = 0; i < kValues; ++i) {
      total[i] += agreed[i];
      sums[i] += sum[i];
    }
    ExpectNear(total, sums);
    group.Commit();
    // Other delays, and memory that is used again, are no difference.
    slow.Round(round, kAll, values);
    EXPECT_TRUE(SameBits(slow.Agreed(), agreed)) << "round " << round;
    slow.Commit();
    for (std::size_t r = 0; r < kMembers; ++r) {
      slow.exchange_[r]->Recycle(std::move(**slow.results_[r]));
    }
  }
}

TEST_P(ExchangeContract, AMemberOfWeightZeroOnlyListens) {
  const Weights without{1, 1, 1, 0};
  Values agreed;
  for (const float own : {0.0F, 1e6F}) {
    ExchangeGroup group = Group(2);
    std::size_t sent = 0;
    group.links_->tap = [&sent](MemoryGroup::Message* message) {
      sent += message->from == 3 ? 1 : 0;
      return true;
    };
    std::vector<Values> values = ValuesOf(1);
    values[3].assign(kValues, own);
    group.Round(1, without, values);
    if (agreed.empty()) agreed = group.Agreed();
    EXPECT_TRUE(SameBits(group.Agreed(), agreed));
    EXPECT_EQ(sent, 0u);
    values[3].assign(kValues, 0);
    ExpectNear(agreed, SumOf(values, without));
  }
}

TEST_P(ExchangeContract, DoneComesOnceInATaskOfItsOwnOnControl) {
  ExchangeGroup group = Group(3);
  const std::vector<Values> values = ValuesOf(1);
  std::vector<int> calls(kMembers);
  bool starting = false;
  group.control_->Post("start", [&] {
    starting = true;
    for (std::size_t r = 0; r < kMembers; ++r) {
      group.exchange_[r]->Start(Request(1, values[r]), [&, r](const Result<Buffer>& sum) {
        EXPECT_TRUE(sum.ok()) << sum.status().ToString();
        EXPECT_FALSE(starting);
        EXPECT_TRUE(group.control_->InThread());
        EXPECT_FALSE(group.compute_[r]->InThread());
        ++calls[r];
      });
    }
    starting = false;
  });
  group.Drain();
  EXPECT_EQ(calls, std::vector<int>(kMembers, 1));
}

TEST_P(ExchangeContract, ASecondRoundAtATimeIsRefusedAndHarmsNothing) {
  ExchangeGroup group = Group(4);
  const std::vector<Values> values = ValuesOf(1);
  bool refused = false;
  group.control_->Post("start", [&] {
    for (std::size_t r = 0; r < kMembers; ++r) {
      group.exchange_[r]->Start(Request(1, values[r]),
                                [&, r](Result<Buffer> sum) { group.results_[r] = std::move(sum); });
    }
    group.exchange_[1]->Start(Request(2, values[1]), [&](const Result<Buffer>& sum) {
      EXPECT_EQ(sum.status().code(), StatusCode::kFailedPrecondition);
      refused = true;
    });
    EXPECT_FALSE(refused) << "comes in a task of its own";
  });
  group.Drain();
  EXPECT_TRUE(refused);
  ExpectNear(group.Agreed(), SumOf(values, kAll));
}

TEST_P(ExchangeContract, WhoIsMissingIsAwaited) {
  ExchangeGroup group = Group(5);
  const std::vector<Values> values = ValuesOf(1);
  for (std::size_t r = 0; r + 1 < kMembers; ++r) group.Start(r, Request(1, values[r]));
  group.Drain();
  std::vector<std::size_t> awaited;
  for (std::size_t r = 0; r + 1 < kMembers; ++r) {
    const std::vector<std::size_t> members = group.exchange_[r]->Awaited();
    EXPECT_FALSE(members.empty()) << "member " << r;
    EXPECT_TRUE(std::ranges::is_sorted(members));
    EXPECT_EQ(std::ranges::count(members, r), 0) << "itself";
    awaited.insert(awaited.end(), members.begin(), members.end());
  }
  EXPECT_GT(std::ranges::count(awaited, kMembers - 1), 0);
  EXPECT_TRUE(group.exchange_[kMembers - 1]->Awaited().empty());
  group.Start(kMembers - 1, Request(1, values[kMembers - 1]));
  group.Drain();
  ExpectNear(group.Agreed(), SumOf(values, kAll));
  for (const auto& exchange : group.exchange_) EXPECT_TRUE(exchange->Awaited().empty());
}

TEST_P(ExchangeContract, AllTrafficOfTheLastRoundIsCounted) {
  ExchangeGroup group = Group(6);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    std::vector<ExchangeTraffic> seen(kMembers);
    group.links_->tap = [&seen](MemoryGroup::Message* message) {
      seen[message->from].sent_bytes += message->payload.size();
      ++seen[message->from].sent_messages;
      seen[message->to].received_bytes += message->payload.size();
      ++seen[message->to].received_messages;
      return true;
    };
    group.Round(round, kAll, ValuesOf(round));
    group.Commit();
    for (std::size_t r = 0; r < kMembers; ++r) {
      const ExchangeTraffic traffic = group.exchange_[r]->traffic();
      EXPECT_GT(traffic.sent_bytes, 0u);
      EXPECT_EQ(traffic.sent_bytes, seen[r].sent_bytes) << "member " << r;
      EXPECT_EQ(traffic.sent_messages, seen[r].sent_messages) << "member " << r;
      EXPECT_EQ(traffic.received_bytes, seen[r].received_bytes) << "member " << r;
      EXPECT_EQ(traffic.received_messages, seen[r].received_messages) << "member " << r;
    }
  }
}

// Also where some members have finished when others hear of it.
TEST_P(ExchangeContract, ARoundThatIsRolledBackAtAnyMessageNeverWas) {
  ExchangeGroup quiet = Group(7);
  std::size_t messages = 0;
  quiet.links_->tap = [&messages](MemoryGroup::Message*) { return ++messages > 0; };
  for (const std::uint64_t round : {1, 3}) {
    messages = 0;
    quiet.Round(round, kAll, ValuesOf(round));
    quiet.Commit();
  }
  const Values expected = quiet.Agreed();
  std::size_t aborted = 0, ends = 0;
  for (std::size_t last = 0; last < messages; last += 3) {
    ExchangeGroup group = Group(static_cast<unsigned>(last));
    group.Round(1, kAll, ValuesOf(1));
    group.Commit();
    std::size_t sent = 0;
    group.links_->tap = [&](MemoryGroup::Message*) {
      if (sent++ == last) {
        for (auto& exchange : group.exchange_) {
          group.control_->PostAfter("abort", std::chrono::microseconds(group.random_() % 700),
                                    [&exchange] { exchange->Rollback(); });
        }
      }
      return sent != last + 2;  // the next message is lost
    };
    group.Round(2, kAll, ValuesOf(2));
    group.links_->tap = nullptr;
    Drop(&group);
    for (std::size_t r = 0; r < kMembers; ++r) {
      aborted += group.StatusOf(r).code() == StatusCode::kAborted ? 1 : 0;
      ends += group.results_[r].has_value() ? 1 : 0;
    }
    group.Round(3, kAll, ValuesOf(3));
    EXPECT_TRUE(SameBits(group.Agreed(), expected)) << "rolled back at message " << last;
  }
  EXPECT_GT(aborted, messages / 3);
  EXPECT_EQ(ends, kMembers * ((messages + 2) / 3)) << "every round ends";
}

TEST_P(ExchangeContract, CommitKeepsMemoriesAndRollbackDropsThoseOfAFinishedRound) {
  Values second[2];
  for (const bool commit : {false, true}) {
    ExchangeGroup group = Group(8);
    group.Round(1, kAll, ValuesOf(1));
    group.Agreed();
    if (commit) group.Commit();
    Drop(&group);  // of what is committed, nothing
    group.Round(2, kAll, ValuesOf(2));
    second[commit ? 1 : 0] = group.Agreed();
  }
  EXPECT_EQ(SameBits(second[0], second[1]), !kind().keeps);
  ExchangeGroup fresh = Group(9);
  fresh.Round(2, kAll, ValuesOf(2));
  EXPECT_TRUE(SameBits(fresh.Agreed(), second[0]));
}

TEST_P(ExchangeContract, AbortTellsOnceAndIsNothingWithoutARound) {
  ExchangeGroup group = Group(10);
  group.exchange_[0]->Abort();
  int calls = 0;
  group.control_->Post("start", [&] {
    group.exchange_[0]->Start(Request(1, ValuesOf(1)[0]), [&](const Result<Buffer>& sum) {
      EXPECT_EQ(sum.status().code(), StatusCode::kAborted);
      ++calls;
    });
  });
  group.Drain();
  EXPECT_EQ(calls, 0);
  group.exchange_[0]->Abort();
  EXPECT_EQ(calls, 0) << "comes in a task of its own";
  group.exchange_[0]->Abort();
  EXPECT_TRUE(group.exchange_[0]->Awaited().empty());
  group.Drain();
  EXPECT_EQ(calls, 1);
}

TEST_P(ExchangeContract, DestructionInARoundCallsNothing) {
  for (unsigned steps = 0; steps < 80; steps += 5) {
    ExchangeGroup group = Group(steps);
    int calls = 0;
    group.control_->Post("start", [&] {
      for (std::size_t r = 0; r < kMembers; ++r) {
        group.exchange_[r]->Start(Request(1, ValuesOf(1)[r]),
                                  [&calls, r](const Result<Buffer>&) { calls += r == 0 ? 1 : 0; });
      }
    });
    for (unsigned i = 0; i <= steps; ++i) group.world_.Step();
    const int before = calls;
    group.exchange_[0].reset();
    group.Drain();
    EXPECT_EQ(calls, before) << steps << " steps";
  }
}

TEST_P(ExchangeContract, WeightsMakeAMean) {
  ExchangeGroup group = Group(11);
  const Weights weights{3, 1, 0, 4};
  const std::vector<Values> values = ValuesOf(1);
  group.Round(1, weights, values, Combine::kWeightedMean);
  if (!kind().sums_only) return ExpectNear(group.Agreed(), SumOf(values, weights, true));
  for (std::size_t r = 0; r < kMembers; ++r) {
    EXPECT_EQ(group.StatusOf(r).code(), StatusCode::kInvalidArgument);
  }
}

// Shards follow each other in rank order, and a scatter's are exact sums of what arrived.
TEST_P(ExchangeContract, AScatterThenAGatherOfItsShardsIsTheSum) {
  ExchangeGroup group = Group(12);
  ExchangeRequest request = Request(1, {});
  request.op = CollectiveOp::kReduceScatter;
  const std::vector<Values> values = ValuesOf(1);
  group.Round(request, values);
  if (kind().sums_only) {
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
    return;
  }
  group.Commit();
  Values sum;
  for (std::size_t r = 0; r < kMembers; ++r) {
    const Values shard = group.ValuesOf(r);
    sum.insert(sum.end(), shard.begin(), shard.end());
  }
  ExpectNear(sum, SumOf(values, kAll));
  request.round = 2;
  request.tensor = 1;
  request.op = CollectiveOp::kAllGather;
  group.Round(request, std::vector<Values>(kMembers, sum));
  ExpectNear(group.Agreed(), SumOf(values, kAll));
}

TEST_P(ExchangeContract, ATransformSeesEveryValueOnce) {
  ExchangeGroup group = Group(13);
  const std::vector<Values> values = ValuesOf(1);
  std::vector<int> seen(kValues);
  ExchangeRequest request = Request(1, {});
  request.transform = [&seen](std::size_t first, std::span<float> chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      ++seen[first + i];
      chunk[i] *= 2;
    }
    return Status::Ok();
  };
  group.Round(request, values);
  if (kind().sums_only) {
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
    return;
  }
  EXPECT_EQ(seen, std::vector<int>(kValues, 1));
  std::vector<double> doubled = SumOf(values, kAll);
  for (double& value : doubled) value *= 2;
  ExpectNear(group.Agreed(), doubled);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExchangeContract, testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace shoal::collective
