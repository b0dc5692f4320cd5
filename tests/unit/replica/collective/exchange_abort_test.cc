// Rounds that end half-way leave nothing behind, and what follows is as if they never were.

#include <gtest/gtest.h>

#include "tests/unit/replica/collective/exchange_group.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;

constexpr std::size_t kMembers = 4, kValues = 217;

ExchangeConfig Config(const char* codec) {
  ExchangeConfig config;
  config.codec = codec;
  config.error_feedback = true;
  config.reuse_memory = true;
  config.row = 16;
  config.chunk_values = 48;
  config.seed = 3;
  return config;
}

// The same for every group of one seed, whatever happened in it.
std::vector<Values> ValuesOfRound(std::uint64_t round, std::size_t members = kMembers) {
  std::mt19937 random(static_cast<unsigned>(round));
  std::normal_distribution<float> normal(0, 1);
  std::vector<Values> values(members, Values(kValues));
  for (Values& member : values) {
    for (float& value : member) value = normal(random);
  }
  return values;
}

const std::vector<std::uint64_t> kAll(kMembers, 1), kWithoutTwo{1, 1, 0, 1};

// Two rounds that count, so that there are memories.
void Begin(ExchangeGroup* group) {
  for (const std::uint64_t round : {1u, 2u}) {
    group->Round(round, kAll, ValuesOfRound(round));
    group->Commit();
  }
}

// Round 3 in which all are told to abort a moment after message number `last` is sent; from it on
// `lost` messages are lost.
void AbortedRound(ExchangeGroup* group, std::size_t last, std::size_t lost) {
  std::size_t sent = 0;
  group->links_->tap = [=, &sent](MemoryGroup::Message*) {
    const std::size_t number = sent++;
    if (number == last) {
      for (auto& exchange : group->exchange_) {
        group->control_->PostAfter("abort", std::chrono::microseconds(group->random_() % 700),
                                   [&exchange] { exchange->Rollback(); });
      }
    }
    return number < last || number >= last + lost;
  };
  group->Round(3, kAll, ValuesOfRound(3));
  group->links_->tap = nullptr;
  for (std::size_t r = 0; r < kMembers; ++r) {
    // A member may have been told before it began.
    if (group->StatusOf(r).code() == StatusCode::kUnavailable) {
      group->exchange_[r]->Rollback();
      group->Drain();
    }
  }
}

class AbortTest : public testing::TestWithParam<const char*> {};

TEST_P(AbortTest, AtEachMessageThenARetryOfAllIsAsIfThereWasNone) {
  ExchangeGroup quiet(kMembers, 1, Config(GetParam()));
  Begin(&quiet);
  quiet.Round(4, kAll, ValuesOfRound(4));
  const Values expected = quiet.Agreed();
  std::size_t messages = 0;
  for (const auto& exchange : quiet.exchange_) messages += exchange->traffic().sent_messages;
  ASSERT_GT(messages, 30u);
  std::size_t aborted = 0;
  for (std::size_t last = 0; last < messages; ++last) {
    ExchangeGroup group(kMembers, static_cast<unsigned>(last), Config(GetParam()));
    Begin(&group);
    AbortedRound(&group, last, last % 3);
    for (std::size_t r = 0; r < kMembers; ++r) aborted += group.StatusOf(r).ok() ? 0 : 1;
    group.Round(4, kAll, ValuesOfRound(4));
    EXPECT_TRUE(SameBits(group.Agreed(), expected)) << "aborted at message " << last;
  }
  EXPECT_GT(aborted, messages);  // most members, most of the time
}

TEST_P(AbortTest, AtEachMessageThenARetryWithoutAMemberIsAsIfThereWasNone) {
  ExchangeGroup quiet(kMembers, 1, Config(GetParam()));
  Begin(&quiet);
  quiet.Round(4, kWithoutTwo, ValuesOfRound(4));
  const Values expected = quiet.ValuesOf(0);
  ExchangeGroup whole(kMembers, 1, Config(GetParam()));
  whole.Round(3, kAll, ValuesOfRound(3));
  std::size_t messages = 0;
  for (const auto& exchange : whole.exchange_) messages += exchange->traffic().sent_messages;
  ASSERT_GT(messages, 30u);
  for (std::size_t last = 0; last < messages; ++last) {
    ExchangeGroup group(kMembers, static_cast<unsigned>(last), Config(GetParam()));
    Begin(&group);
    AbortedRound(&group, last, last % 3);
    // Member 2 is gone: it neither starts nor answers.
    group.exchange_[2].reset();
    ExchangeRequest request{4, 0, kWithoutTwo, Combine::kSum, nullptr};
    for (const std::size_t r : {0u, 1u, 3u}) {
      request.values = Shared(ValuesOfRound(4)[r]);
      group.Start(r, request);
    }
    group.Drain();
    for (const std::size_t r : {0u, 1u, 3u}) {
      EXPECT_TRUE(SameBits(group.ValuesOf(r), expected)) << "aborted at message " << last;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, AbortTest,
    testing::Values("onebit", "direct:bits=3,bucket=16,rounding=stochastic", "dithered:step=1",
                    "cocktail:stride=3,ratio=0.3,bits=4", "topk:ratio=0.1,bits=2"),
    [](const auto& name) {
      return std::string(name.param).substr(0, std::string_view(name.param).find(':'));
    });

// Where coding does not depend on random numbers, a member that only listens and a smaller group
// are the same.
TEST(ExchangeAbortTest, WeightZeroEqualsASmallerGroup) {
  for (const char* codec : {"onebit", "direct:bits=4,bucket=16", "raw:dtype=fp32"}) {
    ExchangeGroup group(kMembers, 1, Config(codec)), smaller(kMembers - 1, 2, Config(codec));
    const std::vector<Values> values = ValuesOfRound(1);
    group.Round(1, kWithoutTwo, values);
    smaller.Round(1, {1, 1, 1}, {values[0], values[1], values[3]});
    EXPECT_TRUE(SameBits(group.Agreed(), smaller.Agreed())) << codec;
  }
}

TEST(ExchangeAbortTest, TheCallbackHearsOfItOnceAndInputsStayAsTheyWere) {
  ExchangeGroup group(2, 4, Config("onebit"));
  const Values values = group.Random(kValues);
  const auto shared = Shared(values);
  int calls = 0;
  group.control_->Post("start", [&] {
    group.exchange_[0]->Start({1, 0, {1, 1}, Combine::kSum, shared}, [&](Result<Buffer> sum) {
      ++calls;
      EXPECT_EQ(sum.status().code(), StatusCode::kAborted);
    });
  });
  group.Drain();
  EXPECT_EQ(group.exchange_[0]->Awaited(), std::vector<std::size_t>{1});
  group.exchange_[0]->Abort();
  group.exchange_[0]->Abort();
  EXPECT_TRUE(group.exchange_[0]->Awaited().empty());
  group.Drain();
  EXPECT_EQ(calls, 1);
  const std::span<const float> left = shared->floats();
  EXPECT_TRUE(SameBits({left.begin(), left.end()}, values));
}

TEST(ExchangeAbortTest, DestructionAtAnyMomentCallsNothing) {
  for (unsigned steps = 0; steps < 60; ++steps) {
    ExchangeGroup group(3, steps, Config("onebit"));
    for (std::size_t r = 0; r < 3; ++r) {
      group.Start(r, {1, 0, {1, 1, 1}, Combine::kSum, Shared(group.Random(100))});
    }
    for (unsigned i = 0; i < steps; ++i) group.world_.Step();
    // The start of a round is a task of the test, which must not find the exchange gone.
    group.world_.RunUntil(
        [&] {
          return group.world_.Now().time_since_epoch() >
                 std::chrono::seconds(1000) + std::chrono::milliseconds(4);
        },
        std::chrono::seconds(1));
    group.exchange_[0]->Abort();
    group.results_[0].reset();
    group.exchange_[0].reset();
    group.Drain();
    EXPECT_FALSE(group.results_[0].has_value()) << steps << " steps";
  }
}

}  // namespace
}  // namespace shoal::collective
