#include "collective/all_reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>

#include "tests/support/memory_group.h"
#include "tests/support/sim_executor.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;
using test_support::SimWorld;

// A stage group in virtual time, with random delays.
class Group {
 public:
  Group(std::size_t size, unsigned seed) : random_(seed) {
    const auto some = [this] { return std::chrono::microseconds(random_() % 1000); };
    control_ = world_.NewExecutor("control");
    links_ = std::make_unique<MemoryGroup>(&world_, control_.get(), size, some);
    for (std::size_t r = 0; r < size; ++r) {
      compute_.push_back(world_.NewExecutor("compute", [some](const char*) { return some(); }));
      reduce_.push_back(NewDirectAllReduce(links_->member(r), control_.get(), compute_[r].get()));
    }
    results_.resize(size);
  }

  std::vector<float> Random(std::size_t count) {
    std::normal_distribution<float> normal(0, 100);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  void Start(std::size_t rank, std::uint64_t round, std::uint64_t contributors,
             const std::vector<float>& values) {
    results_[rank].reset();
    reduce_[rank]->Start(round, contributors, Buffer::CopyOf(std::as_bytes(std::span(values))),
                         [this, rank](Result<Buffer> sum) { results_[rank] = std::move(sum); });
  }
  // Starts all members at random times and runs to the end.
  void Round(std::uint64_t round, std::uint64_t contributors,
             const std::vector<std::vector<float>>& values) {
    for (std::size_t r = 0; r < reduce_.size(); ++r) {
      control_->PostAfter("start", std::chrono::microseconds(random_() % 5000),
                          [=, this, v = values[r]] { Start(r, round, contributors, v); });
    }
    Drain();
  }
  void Drain() {
    while (world_.Step()) {
    }
  }
  std::vector<float> Values(std::size_t rank) {
    EXPECT_TRUE(results_[rank].has_value()) << "member " << rank;
    if (!results_[rank].has_value()) return {};
    EXPECT_TRUE(results_[rank]->ok()) << results_[rank]->status().ToString();
    if (!results_[rank]->ok()) return {};
    const std::span<const float> sum = std::as_const(**results_[rank]).floats();
    return {sum.begin(), sum.end()};
  }
  Status StatusOf(std::size_t rank) {
    if (!results_[rank].has_value()) return Unavailable("no result");
    return results_[rank]->ok() ? Status::Ok() : results_[rank]->status();
  }

  std::mt19937 random_;
  SimWorld world_;
  std::unique_ptr<Executor> control_;
  std::vector<std::unique_ptr<Executor>> compute_;
  std::unique_ptr<MemoryGroup> links_;
  std::vector<std::unique_ptr<AllReduce>> reduce_;
  std::vector<std::optional<Result<Buffer>>> results_;
};

// The obvious sum: value by value, contributors in rank order, in fp32.
std::vector<float> Reference(const std::vector<std::vector<float>>& values,
                             std::uint64_t contributors) {
  std::vector<float> sum(values[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    std::optional<float> total;
    for (std::size_t r = 0; r < values.size(); ++r) {
      if ((contributors >> r & 1) != 0) total = total ? *total + values[r][i] : values[r][i];
    }
    sum[i] = *total;
  }
  return sum;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class AllReduceSizes : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(AllReduceSizes, EqualsRankOrderSumBitForBitOnAllMembers) {
  const auto [members, count] = GetParam();
  Group group(members, 7 * members + count);
  for (std::uint64_t round = 1; round <= 4; ++round) {
    std::vector<std::vector<float>> values;
    for (int r = 0; r < members; ++r) values.push_back(group.Random(count));
    const std::uint64_t contributors = 1 + group.random_() % ((1u << members) - 1);
    group.Round(round, contributors, values);
    const std::vector<float> expected = Reference(values, contributors);
    for (int r = 0; r < members; ++r) {
      EXPECT_TRUE(SameBits(group.Values(r), expected)) << "round " << round << " member " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AllReduceSizes,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5),
                                          testing::Values(0, 1, 2, 3, 7, 64, 1001)));

TEST(AllReduceTest, EveryMemberSendsTwoShardsPerOther) {
  Group group(4, 1);
  std::size_t bytes = 0, messages = 0;
  group.links_->tap = [&](MemoryGroup::Message* message) {
    bytes += message->payload.size();
    ++messages;
    return true;
  };
  group.Round(1, 0b1111,
              {group.Random(400), group.Random(400), group.Random(400), group.Random(400)});
  EXPECT_EQ(messages, 4u * 3 * 2);
  EXPECT_EQ(bytes, 4u * 2 * 3 * 100 * sizeof(float));
}

TEST(AllReduceTest, MessagesOfALaterRoundWaitForTheirRound) {
  Group group(2, 3);
  const std::vector<float> a = group.Random(9), b = group.Random(9);
  group.Start(0, 1, 0b11, a);
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kUnavailable);  // still waiting
  EXPECT_EQ(group.reduce_[0]->Awaited(), std::vector<std::size_t>{1});
  EXPECT_TRUE(group.reduce_[1]->Awaited().empty());
  group.Start(1, 1, 0b11, b);
  group.Drain();
  EXPECT_TRUE(SameBits(group.Values(0), Reference({a, b}, 0b11)));
  EXPECT_TRUE(SameBits(group.Values(1), Reference({a, b}, 0b11)));
}

TEST(AllReduceTest, RetryAfterAbortIsNotDisturbedByLateMessages) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Group group(3, seed);
    std::vector<std::vector<float>> values, again;
    for (int r = 0; r < 3; ++r) {
      values.push_back(group.Random(100));
      again.push_back(group.Random(77));
    }
    for (int r = 0; r < 3; ++r) group.Start(r, 5, 0b111, values[r]);
    const unsigned steps = group.random_() % 40;
    for (unsigned i = 0; i < steps; ++i) group.world_.Step();
    for (int r = 0; r < 3; ++r) {
      const bool was_running = !group.results_[r].has_value();
      group.reduce_[r]->Abort();
      if (was_running) {
        EXPECT_EQ(group.StatusOf(r).code(), StatusCode::kAborted);
      }
      group.Start(r, 6, 0b111, again[r]);
    }
    group.Drain();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(SameBits(group.Values(r), Reference(again, 0b111))) << "seed " << seed;
    }
  }
}

TEST(AllReduceTest, AWrongSizeEndsTheOperationWithItsCause) {
  Group group(2, 4);
  group.links_->tap = [](MemoryGroup::Message* message) {
    if (message->from == 0) message->payload = Buffer(message->payload.size() + 4);
    return true;
  };
  group.Round(1, 0b11, {group.Random(8), group.Random(8)});
  EXPECT_EQ(group.StatusOf(1).code(), StatusCode::kInvalidArgument);
  EXPECT_NE(group.StatusOf(1).message().find("member 0"), std::string::npos);
}

TEST(AllReduceTest, ASecondShardAndAnUninvitedOneAreErrors) {
  Group group(3, 5);
  group.Start(0, 1, 0b011, group.Random(6));
  ASSERT_TRUE(group.links_->member(2)->Send(0, 2, Buffer(8)).ok());
  group.Drain();
  EXPECT_NE(group.StatusOf(0).message().find("does not contribute"), std::string::npos);
  group.Start(0, 2, 0b011, group.Random(6));
  ASSERT_TRUE(group.links_->member(1)->Send(0, 4, Buffer(8)).ok());
  ASSERT_TRUE(group.links_->member(1)->Send(0, 4, Buffer(8)).ok());
  group.Drain();
  EXPECT_NE(group.StatusOf(0).message().find("second shard"), std::string::npos);
}

TEST(AllReduceTest, AFloodOfEarlyMessagesIsAnErrorNotAHang) {
  for (const bool running : {false, true}) {
    Group group(2, 6);
    if (running) group.Start(0, 1, 0b11, group.Random(3));
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(group.links_->member(1)->Send(0, (9 + i) * 2, Buffer(4)).ok());
    }
    group.Drain();
    if (!running) group.Start(0, 1, 0b11, group.Random(3));
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
    EXPECT_NE(group.StatusOf(0).message().find("member 1"), std::string::npos);
  }
}

TEST(AllReduceTest, WrongArgumentsAreRefused) {
  Group group(2, 8);
  group.Start(0, 3, 0, {1.0f});
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
  group.Start(0, 3, 0b100, {1.0f});
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);
  group.Round(3, 0b11, {{1.0f}, {2.0f}});
  EXPECT_EQ(group.Values(0), std::vector<float>{3.0f});
  group.Start(0, 3, 0b11, {1.0f});
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kInvalidArgument);  // a round does not repeat
}

TEST(AllReduceTest, DestructionAtAnyMomentCallsNothing) {
  for (unsigned steps = 0; steps < 40; ++steps) {
    Group group(3, steps);
    bool called = false;
    for (int r = 0; r < 3; ++r) group.Start(r, 1, 0b111, group.Random(10));
    group.reduce_[0]->Abort();
    group.reduce_[0]->Start(2, 0b111, Buffer(40), [&](Result<Buffer>) { called = true; });
    for (unsigned i = 0; i < steps; ++i) group.world_.Step();
    group.reduce_[0].reset();
    called = false;
    group.Drain();
    EXPECT_FALSE(called);
  }
}

}  // namespace
}  // namespace shoal::collective
