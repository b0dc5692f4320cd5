#include "replica/collective/ring/ring_reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "replica/collective/one_bit.h"
#include "tests/unit/replica/collective/ring/ring_group.h"

namespace shoal::collective {
namespace {

using Floats = std::vector<float>;
using test_support::MemoryGroup;

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// rows, columns, values
class RingReduceSizes : public testing::TestWithParam<std::tuple<std::tuple<int, int>, int>> {};

TEST_P(RingReduceSizes, EqualsTheSumInHopOrderBitForBitOnAllMembers) {
  const auto [shape, count] = GetParam();
  const Torus torus{static_cast<std::size_t>(std::get<0>(shape)),
                    static_cast<std::size_t>(std::get<1>(shape))};
  const std::size_t members = torus.members();
  RingGroup group(members, 7 * members + count, {.columns = torus.columns, .chunk_bytes = 64});
  for (std::uint64_t round = 1; round <= 4; ++round) {
    std::vector<Floats> values;
    for (std::size_t r = 0; r < members; ++r) values.push_back(group.Random(count));
    const std::uint64_t contributors = 1 + group.random() % ((1u << members) - 1);
    group.Round(round, contributors, values, NewSumMerge());
    const Floats expected = SumInHopOrder(torus, values, contributors);
    for (std::size_t r = 0; r < members; ++r) {
      EXPECT_TRUE(SameBits(group.Values<float>(r), expected)) << "round " << round << " of " << r;
      EXPECT_TRUE(group.rings[r]->Awaited().empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RingReduceSizes,
                         testing::Combine(testing::Values(std::tuple(1, 1), std::tuple(1, 2),
                                                          std::tuple(1, 3), std::tuple(1, 5),
                                                          std::tuple(2, 2), std::tuple(2, 3),
                                                          std::tuple(3, 2), std::tuple(4, 1)),
                                          testing::Values(0, 1, 2, 7, 64, 1001)));

TEST(RingReduceTest, WireBytesAreThoseOfTheTheory) {
  // 2 (D-1)/D of the vector, for a ring, a torus and the ring that a ragged torus becomes.
  constexpr std::size_t kValues = 400000;
  for (const auto& [members, columns] :
       std::vector<std::pair<std::size_t, std::size_t>>{{4, 0}, {6, 3}, {5, 2}, {8, 4}}) {
    for (const bool one_bit : {false, true}) {
      RingGroup group(members, 1, {.columns = columns, .chunk_bytes = 4096});
      std::vector<double> bytes(members);
      group.links->tap = [&](MemoryGroup::Message* message) {
        bytes[message->from] += static_cast<double>(message->payload.size());
        return true;
      };
      const std::size_t words = SignWords(kValues);
      if (one_bit) {
        group.Round(1, 1, std::vector(members, std::vector<std::uint64_t>(words)),
                    NewOneBitMerge(1, kValues, 0));
      } else {
        group.Round(1, 1, std::vector(members, Floats(kValues)), NewSumMerge());
      }
      const double share = 2.0 * (static_cast<double>(members) - 1) / static_cast<double>(members);
      const double theory = share * kValues * (one_bit ? 1 : 32) / 8;
      for (const double sent : bytes) EXPECT_NEAR(sent / theory, 1, 0.02) << members << columns;
    }
  }
}

TEST(RingReduceTest, AChunkGoesAllTheWayWithoutWaitingForTheNextOne) {
  RingGroup group(3, 2, {.chunk_bytes = 64});
  std::size_t gathers = 0;
  group.links->tap = [&](MemoryGroup::Message* message) {
    const RingHeader header = *ReadRingHeader(message->payload.bytes());
    if (header.phase == RingPhase::kRowGather) ++gathers;
    // The last chunk of member 0's slice is lost at its first hop.
    return header.slice != 0 || header.chunk != 99 || header.hop != 0;
  };
  group.Round(1, 0b111, std::vector(3, Floats(3 * 16 * 100, 1.0f)), NewSumMerge());
  EXPECT_EQ(gathers, 2u * (3 * 100 - 1));
  EXPECT_EQ(group.rings[0]->Awaited(), std::vector<std::size_t>{2});
  EXPECT_EQ(group.rings[1]->Awaited(), std::vector<std::size_t>{0});
  EXPECT_EQ(group.rings[2]->Awaited(), std::vector<std::size_t>{1});
}

TEST(RingReduceTest, MessagesOfALaterRoundWaitForTheirRound) {
  RingGroup group(3, 3, {.chunk_bytes = 16});
  const std::vector<Floats> values = {group.Random(90), group.Random(90), group.Random(90)};
  group.Start(0, 1, 0b111, values[0], NewSumMerge());
  group.Start(1, 1, 0b111, values[1], NewSumMerge());
  group.Drain();
  EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kUnavailable);  // still waiting
  EXPECT_EQ(group.rings[0]->Awaited(), std::vector<std::size_t>{2});
  EXPECT_EQ(group.rings[1]->Awaited(), std::vector<std::size_t>{0});
  group.Start(2, 1, 0b111, values[2], NewSumMerge());
  group.Drain();
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(SameBits(group.Values<float>(r), SumInHopOrder(RingOf(3), values, 0b111)));
  }
}

TEST(RingReduceTest, RetryAfterAbortAtAnyMomentIsAFreshExchange) {
  for (const std::size_t columns : {0u, 2u}) {
    for (unsigned seed = 0; seed < 100; ++seed) {
      RingGroup group(4, seed, {.columns = columns, .chunk_bytes = 64});
      std::vector<Floats> values, again;
      for (int r = 0; r < 4; ++r) {
        values.push_back(group.Random(100));
        again.push_back(group.Random(77));
      }
      for (int r = 0; r < 4; ++r) group.Start(r, 5, 0b1111, values[r], NewSumMerge());
      for (unsigned i = 0; i < seed * 3; ++i) group.world.Step();
      for (int r = 0; r < 4; ++r) {
        const bool was_running = !group.results[r].has_value();
        group.rings[r]->Abort();
        if (was_running) {
          EXPECT_EQ(group.StatusOf(r).code(), StatusCode::kAborted);
        }
        // Some go on at once, some while their neighbours' chunks are there already.
        for (unsigned i = 0; i < group.random() % 20; ++i) group.world.Step();
        group.Start(r, 6, 0b1011, again[r], NewSumMerge());
      }
      group.Drain();
      const Floats expected = SumInHopOrder(TorusOf(4, columns), again, 0b1011);
      for (int r = 0; r < 4; ++r) {
        EXPECT_TRUE(SameBits(group.Values<float>(r), expected)) << "seed " << seed;
      }
    }
  }
}

// Sends one changed message to member 1 of 3 and returns what member 1 says.
Status AfterChange(const std::function<void(Buffer*)>& change) {
  RingGroup group(3, 4, {.chunk_bytes = 64, .epoch = 3});
  bool changed = false;
  group.links->tap = [&](MemoryGroup::Message* message) {
    if (message->to == 1 && !std::exchange(changed, true)) change(&message->payload);
    return true;
  };
  group.Round(1, 0b111, std::vector(3, Floats(288, 1.0f)), NewSumMerge());
  EXPECT_TRUE(changed);
  return group.StatusOf(1);
}

TEST(RingReduceTest, ForeignMessagesEndTheOperationWithTheirCause) {
  const auto refused = [](const std::function<void(Buffer*)>& change, const std::string& why) {
    const Status status = AfterChange(change);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("member 0"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  };
  const auto with = [](std::size_t at, int value) {
    return [=](Buffer* message) { message->data()[at] = static_cast<std::byte>(value); };
  };
  refused(with(0, 9), "layout version 9");
  refused(with(1, 2), "another vector, method or contributors");
  refused(with(2, 1), "nothing is awaited");
  refused(with(2, 3), "nothing is awaited");
  refused(with(3, 1), "nothing is awaited");
  refused(with(4, 3), "does not exist");
  refused(with(8, 7), "does not exist");
  refused(with(12, 2), "stands for 2 members instead of 1");
  refused(with(16, 2), "belongs to round 2 of generation 3, not to round 1 of 3");
  refused(with(24, 4), "belongs to round 1 of generation 4, not to round 1 of 3");
  refused(with(32, 77), "another vector, method or contributors");
  refused(with(40, 77), "damaged");
  refused(with(60, 77), "damaged");
  refused([](Buffer* message) { message->Truncate(20); }, "shorter than its header");
  refused([](Buffer* message) { message->Truncate(96); }, "has 48 bytes instead of 64");
  refused([](Buffer* message) { *message = Buffer(); }, "shorter than its header");
}

TEST(RingReduceTest, ASecondCopyOfAMessageIsAnError) {
  RingGroup group(2, 5, {.chunk_bytes = 64});
  std::optional<Buffer> copy;
  group.links->tap = [&](MemoryGroup::Message* message) {
    if (message->to == 0 && !copy) copy = Buffer::CopyOf(message->payload.bytes());
    return true;
  };
  group.Start(0, 1, 0b11, Floats(100), NewSumMerge());
  group.Start(1, 1, 0b11, Floats(100), NewSumMerge());
  while (!copy) group.world.Step();
  ASSERT_TRUE(group.links->member(1)->Send(0, 1, std::move(*copy)).ok());
  group.Drain();
  EXPECT_NE(group.StatusOf(0).message().find("came twice"), std::string::npos);
}

TEST(RingReduceTest, UnusedBitsOfAForeignVectorAreRefused) {
  for (const bool in_marks : {false, true}) {
    RingGroup group(2, 5, {});
    // 3 signs and 3 marks: a word each; member 0 sends the first, member 1 the second.
    std::vector<std::vector<std::uint64_t>> words = {{1, 1}, {1, 1}};
    words[in_marks ? 1 : 0][in_marks ? 1 : 0] = 1 << 3;
    group.Round(1, 0b11, words, NewOneBitMerge(1, 3, 3));
    const Status status = group.StatusOf(in_marks ? 0 : 1);
    EXPECT_NE(status.message().find("unused bits"), std::string::npos) << status.message();
  }
}

TEST(RingReduceTest, AFloodOfEarlyMessagesIsAnErrorNotAHang) {
  for (const bool running : {false, true}) {
    RingGroup group(2, 6, {.early_bytes_max = 10000});
    if (running) group.Start(0, 1, 0b11, Floats(3), NewSumMerge());
    for (std::uint64_t round = 9; round < 1000; ++round) {
      Buffer message(kRingHeaderBytes);
      WriteRingHeader({.round = round}, message.bytes());
      ASSERT_TRUE(group.links->member(1)->Send(0, round, std::move(message)).ok());
    }
    group.Drain();
    if (!running) group.Start(0, 1, 0b11, Floats(3), NewSumMerge());
    group.Drain();
    EXPECT_EQ(group.StatusOf(0).code(), StatusCode::kResourceExhausted);
    EXPECT_NE(group.StatusOf(0).message().find("member 1"), std::string::npos);
  }
}

TEST(RingReduceTest, MessagesOfAnEarlierGenerationAreDropped) {
  RingGroup group(2, 7, {.epoch = 2});
  for (const bool running : {false, true}) {
    if (running) group.Start(0, 1, 0b11, Floats(3, 1.0f), NewSumMerge());
    Buffer message(kRingHeaderBytes);
    WriteRingHeader({.round = 1, .epoch = 1}, message.bytes());
    ASSERT_TRUE(group.links->member(1)->Send(0, 1, std::move(message)).ok());
    group.Drain();
  }
  group.Start(1, 1, 0b11, Floats(3, 2.0f), NewSumMerge());
  group.Drain();
  EXPECT_EQ(group.Values<float>(0), Floats(3, 3.0f));
}

TEST(RingReduceTest, TrafficCountsWhatWasSentAndReceived) {
  RingGroup group(3, 7, {.columns = 0, .chunk_bytes = 64});
  RingTraffic all;
  group.links->tap = [&](MemoryGroup::Message* message) {
    all.sent_bytes += message->payload.size();
    ++all.sent_messages;
    return true;
  };
  for (std::uint64_t round = 1; round <= 2; ++round) {
    all = {};
    group.Round(round, 0b111, std::vector(3, Floats(100)), NewSumMerge());
    RingTraffic counted;
    for (const auto& ring : group.rings) {
      counted.sent_bytes += ring->traffic().sent_bytes;
      counted.sent_messages += ring->traffic().sent_messages;
      counted.received_bytes += ring->traffic().received_bytes;
      counted.received_messages += ring->traffic().received_messages;
    }
    EXPECT_EQ(counted.sent_bytes, all.sent_bytes);
    EXPECT_EQ(counted.received_bytes, all.sent_bytes);
    EXPECT_EQ(counted.sent_messages, all.sent_messages);
    EXPECT_EQ(counted.received_messages, all.sent_messages);
  }
}

TEST(RingReduceTest, WrongArgumentsAreRefused) {
  RingGroup group(2, 8, {});
  const auto code = [&](std::uint64_t round, std::uint64_t contributors,
                        const std::vector<char>& bytes) {
    group.Start(0, round, contributors, bytes, NewSumMerge());
    EXPECT_FALSE(group.results[0].has_value()) << "from inside Start";
    group.Drain();
    return group.StatusOf(0).code();
  };
  EXPECT_EQ(code(3, 0, std::vector<char>(4)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, 0b100, std::vector<char>(4)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(3, 0b11, std::vector<char>(6)), StatusCode::kInvalidArgument);
  group.Round(3, 0b11, std::vector<Floats>{{1.0f}, {2.0f}}, NewSumMerge());
  EXPECT_EQ(group.Values<float>(0), Floats{3.0f});
  EXPECT_EQ(code(3, 0b11, std::vector<char>(4)), StatusCode::kInvalidArgument);  // no repeat
  group.Start(1, 4, 0b11, Floats{1.0f}, NewSumMerge());
  bool second = false;
  group.rings[1]->Start(
      {.round = 5, .contributors = 0b11, .label = "", .vector = Buffer(4), .merge = NewSumMerge()},
      [&](Result<Buffer> result) {
        second = true;
        EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
      });
  group.Drain();
  EXPECT_TRUE(second);
}

TEST(RingReduceTest, DestructionAtAnyMomentCallsNothing) {
  for (unsigned steps = 0; steps < 60; ++steps) {
    RingGroup group(3, steps, {.chunk_bytes = 16});
    bool called = false;
    for (int r = 0; r < 3; ++r) group.Start(r, 1, 0b111, group.Random(20), NewSumMerge());
    group.rings[0]->Abort();
    group.rings[0]->Start({.round = 2,
                           .contributors = 0b111,
                           .label = "test",
                           .vector = Buffer(80),
                           .merge = NewSumMerge()},
                          [&](Result<Buffer>) { called = true; });
    for (unsigned i = 0; i < steps; ++i) group.world.Step();
    group.rings[0].reset();
    called = false;
    group.Drain();
    EXPECT_FALSE(called);
  }
}

// Gives its values away when they are asked for, and adds 1 to the outcome.
class CountingEnds final : public RingEnds {
 public:
  CountingEnds(Floats values, Floats outcome, std::size_t settled_first)
      : opened(values.size()),
        closed(values.size()),
        values_(std::move(values)),
        outcome_(std::move(outcome)),
        settled_first_(settled_first) {}

  Status Open(std::size_t first, std::span<std::byte> own) override {
    const std::size_t count = own.size() / sizeof(float);
    for (std::size_t i = first; i < first + count; ++i) ++opened[i];
    std::memcpy(own.data(), values_.data() + first, own.size());
    return first == open_fails ? InvalidArgument("not opened") : Status::Ok();
  }
  Status Close(std::size_t first, std::size_t count, std::span<std::byte> vector) override {
    Floats now(values_.size());
    std::memcpy(now.data(), vector.data(), vector.size());
    for (std::size_t i = first; i < first + count; ++i) {
      EXPECT_EQ(now[i], outcome_[i]) << i;
      ++closed[i];
      if (i < settled_first_) ++now[i];
    }
    for (std::size_t i = settled_first_; i < now.size(); ++i) EXPECT_EQ(now[i], outcome_[i]) << i;
    std::memcpy(vector.data() + first * sizeof(float), now.data() + first, count * sizeof(float));
    return first == close_fails ? InvalidArgument("not closed") : Status::Ok();
  }
  std::size_t settled_first() const override { return settled_first_; }

  std::vector<int> opened, closed;
  std::size_t open_fails = SIZE_MAX, close_fails = SIZE_MAX;

 private:
  const Floats values_, outcome_;
  const std::size_t settled_first_;
};

void StartWithEnds(RingGroup* group, std::size_t rank, std::uint64_t round, std::size_t values,
                   std::shared_ptr<RingEnds> ends) {
  group->results[rank].reset();
  Buffer vector(values * sizeof(float));
  if (values > 0) std::memset(vector.data(), 0xff, vector.size());
  group->rings[rank]->Start(
      {.round = round,
       .contributors = (1u << group->rings.size()) - 1,
       .label = "test",
       .vector = std::move(vector),
       .merge = NewSumMerge(),
       .ends = std::move(ends)},
      [group, rank](Result<Buffer> sum) { group->results[rank] = std::move(sum); });
}

TEST(RingReduceTest, EndsOpenEveryElementOnceAndCloseItWhenItIsTheOutcome) {
  for (const Torus torus : {Torus{1, 1}, Torus{1, 3}, Torus{2, 2}, Torus{2, 4}}) {
    for (const std::size_t count : {0u, 5u, 1001u}) {
      for (const std::size_t settled : {std::size_t{0}, count * 9 / 10, SIZE_MAX}) {
        RingGroup group(torus.members(), 17, {.columns = torus.columns, .chunk_bytes = 64});
        const std::uint64_t all = (1u << torus.members()) - 1;
        std::vector<Floats> values;
        for (std::size_t r = 0; r < torus.members(); ++r) values.push_back(group.Random(count));
        Floats outcome = SumInHopOrder(torus, values, all);
        std::vector<std::shared_ptr<CountingEnds>> ends;
        for (std::size_t r = 0; r < torus.members(); ++r) {
          ends.push_back(std::make_shared<CountingEnds>(values[r], outcome, settled));
          StartWithEnds(&group, r, 1, count, ends[r]);
        }
        group.Drain();
        for (std::size_t i = 0; i < std::min(count, settled); ++i) ++outcome[i];
        for (std::size_t r = 0; r < torus.members(); ++r) {
          EXPECT_TRUE(SameBits(group.Values<float>(r), outcome)) << r;
          EXPECT_EQ(ends[r]->opened, std::vector<int>(count, 1));
          EXPECT_EQ(ends[r]->closed, std::vector<int>(count, 1));
        }
      }
    }
  }
}

TEST(RingReduceTest, AnErrorOfTheEndsEndsTheRoundAndTheNextOneIsSound) {
  constexpr std::size_t kCount = 300;
  for (const bool opening : {false, true}) {
    RingGroup group(3, 19, {.chunk_bytes = 64});
    std::vector<Floats> values;
    for (std::size_t r = 0; r < 3; ++r) values.push_back(group.Random(kCount));
    const Floats outcome = SumInHopOrder({1, 3}, values, 0b111);
    for (std::uint64_t round = 1; round <= 2; ++round) {
      for (std::size_t r = 0; r < 3; ++r) {
        auto ends = std::make_shared<CountingEnds>(values[r], outcome, SIZE_MAX);
        if (round == 1 && r == 1) (opening ? ends->open_fails : ends->close_fails) = 100;
        StartWithEnds(&group, r, round, kCount, std::move(ends));
      }
      group.Drain();
      if (round == 2) break;
      EXPECT_EQ(group.StatusOf(1).message(), opening ? "not opened" : "not closed");
      for (auto& ring : group.rings) ring->Abort();
    }
    for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(group.StatusOf(r).ok()) << r;
  }
}

}  // namespace
}  // namespace shoal::collective
