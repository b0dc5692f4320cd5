#include "replica/collective/ring/marsit_exchange.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "tests/support/memory_group.h"
#include "tests/support/sim_executor.h"
#include "tests/unit/replica/collective/ring/marsit_reference.h"

namespace shoal::collective {
namespace {

using Floats = std::vector<float>;
using test_support::MemoryGroup;

constexpr MarsitRates kRates = {0.5F, 0.25F};

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// A member's memory, as the next round depends on it.
struct Memory {
  Floats compensation;
  std::uint64_t one_bit_rounds = 0;
  bool exact = false;
  bool operator==(const Memory& other) const {
    return SameBits(compensation, other.compensation) && exact == other.exact &&
           one_bit_rounds == other.one_bit_rounds;
  }
};

// A stage group in virtual time.
class Group {
 public:
  Group(std::size_t size, std::size_t values, const MarsitOptions& options, RingOptions ring,
        unsigned seed)
      : random_(seed) {
    const auto some = [this] { return std::chrono::microseconds(random_() % 1000); };
    control = world.NewExecutor("control");
    links = std::make_unique<MemoryGroup>(&world, control.get(), size, some);
    for (std::size_t r = 0; r < size; ++r) {
      compute_.push_back(world.NewExecutor("compute", [some](const char*) { return some(); }));
      rings.push_back(NewRingReduce(links->member(r), control.get(), compute_[r].get(), ring));
      members.push_back(*NewMarsitExchange(options, values, rings[r].get(), control.get()));
    }
    results.resize(size);
  }

  void Start(std::uint64_t round, std::uint64_t contributors, const std::vector<Floats>& inputs) {
    for (std::size_t r = 0; r < members.size(); ++r) {
      results[r].reset();
      const auto input =
          std::make_shared<const Buffer>(Buffer::CopyOf(std::as_bytes(std::span(inputs[r]))));
      members[r]->Start(round, contributors, kRates, input,
                        [this, r](Result<Buffer> update) { results[r] = std::move(update); });
    }
  }
  void Drain() {
    while (world.Step()) {
    }
  }
  // A whole round; the update, which all members have bit for bit.
  Floats Round(std::uint64_t round, std::uint64_t contributors, const std::vector<Floats>& inputs) {
    Start(round, contributors, inputs);
    Drain();
    const Floats update = UpdateOf(0);
    for (std::size_t r = 0; r < members.size(); ++r) {
      EXPECT_TRUE(SameBits(UpdateOf(r), update)) << "member " << r << " round " << round;
      members[r]->Commit();
    }
    return update;
  }
  Floats UpdateOf(std::size_t r) {
    EXPECT_TRUE(results[r].has_value()) << "member " << r;
    if (!results[r].has_value()) return {};
    EXPECT_TRUE(results[r]->ok()) << results[r]->status().ToString();
    if (!results[r]->ok()) return {};
    const auto values = std::as_const(**results[r]).floats();
    return {values.begin(), values.end()};
  }
  Memory MemoryOf(std::size_t r) const {
    const auto c = members[r]->compensation();
    return {{c.begin(), c.end()}, members[r]->one_bit_rounds(), members[r]->NextIsExact()};
  }
  void Restore(const std::vector<Memory>& memories) {
    for (std::size_t r = 0; r < members.size(); ++r) {
      const Memory& memory = memories[r];
      EXPECT_TRUE(members[r]
                      ->Restore(Buffer::CopyOf(std::as_bytes(std::span(memory.compensation))),
                                memory.one_bit_rounds)
                      .ok());
    }
  }

  test_support::SimWorld world;
  std::unique_ptr<Executor> control;
  std::unique_ptr<MemoryGroup> links;
  std::vector<std::unique_ptr<RingReduce>> rings;
  std::vector<std::unique_ptr<MarsitExchange>> members;
  std::vector<std::optional<Result<Buffer>>> results;

 private:
  std::mt19937 random_;
  std::vector<std::unique_ptr<Executor>> compute_;
};

std::vector<Floats> Inputs(std::size_t members, std::size_t values, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.2F, 1);
  std::vector<Floats> inputs(members, Floats(values));
  for (Floats& input : inputs) {
    for (float& value : input) value = normal(random);
  }
  return inputs;
}

TEST(MarsitExchangeTest, ReplicasAreTheSameBitsOverAHundredRounds) {
  for (const std::size_t columns : {0u, 2u}) {
    constexpr std::size_t kValues = 700;
    Group group(4, kValues, {.every = 10, .seed = 5, .masked = {{64, 10, 20}}},
                {.columns = columns, .chunk_bytes = 64}, 1);
    std::vector<Floats> parameters(4, Floats(kValues));
    int exact = 0;
    for (std::uint64_t round = 1; round <= 100; ++round) {
      exact += group.members[0]->NextIsExact() ? 1 : 0;
      group.Start(round, 0b1111, Inputs(4, kValues, static_cast<unsigned>(round)));
      group.Drain();
      for (std::size_t r = 0; r < 4; ++r) {
        const Floats update = group.UpdateOf(r);
        for (std::size_t i = 0; i < kValues; ++i) parameters[r][i] -= update[i];
        group.members[r]->Commit();
      }
      for (std::size_t r = 1; r < 4; ++r) ASSERT_TRUE(SameBits(parameters[r], parameters[0]));
    }
    EXPECT_EQ(exact, 10);  // rounds 1, 11, ... 91
    EXPECT_NE(parameters[0], Floats(kValues));
  }
}

TEST(MarsitExchangeTest, EveryKthRoundIsExactAndEqualsTheAverage) {
  constexpr std::size_t kValues = 100;
  Group group(3, kValues, {.every = 4}, {}, 2);
  for (std::uint64_t round = 1; round <= 13; ++round) {
    const bool exact = round % 4 == 1;
    std::vector<Memory> before;
    for (std::size_t r = 0; r < 3; ++r) {
      before.push_back(group.MemoryOf(r));
      EXPECT_EQ(before[r].exact, exact);
    }
    const std::vector<Floats> x = Inputs(3, kValues, static_cast<unsigned>(round));
    const Floats update = group.Round(round, 0b111, x);
    for (std::size_t i = 0; i < kValues; ++i) {
      double mean = 0;
      for (std::size_t r = 0; r < 3; ++r) {
        mean += (0.5 * x[r][i] + before[r].compensation[i]) / 3;
      }
      if (exact) {
        EXPECT_NEAR(update[i], mean, 1e-5);
      } else {
        EXPECT_EQ(std::abs(update[i]), 0.25F);
      }
    }
    for (std::size_t r = 0; r < 3; ++r) {
      if (exact) {
        EXPECT_EQ(group.MemoryOf(r).compensation, Floats(kValues));
      }
    }
  }
}

TEST(MarsitExchangeTest, WireBytesAreOneBitAValue) {
  constexpr std::size_t kValues = 2'000'000;
  for (const std::size_t columns : {0u, 2u}) {
    Group group(4, kValues, {}, {.columns = columns}, 3);
    std::vector<double> bytes(4);
    group.links->tap = [&](MemoryGroup::Message* message) {
      bytes[message->from] += static_cast<double>(message->payload.size());
      return true;
    };
    const std::vector<Floats> x(4, Floats(kValues, 1.0F));
    for (std::uint64_t round = 1; round <= 2; ++round) {
      group.Round(round, 0b1111, x);
      const double theory = 2.0 * 3 / 4 * kValues / 8 * (round == 1 ? 32 : 1);
      for (double& sent : bytes) EXPECT_NEAR(std::exchange(sent, 0) / theory, 1, 0.02);
    }
  }
}

TEST(MarsitExchangeTest, BytesOfManyRoundsAreTheBitsPerValueOfThePaper) {
  constexpr std::size_t kValues = 100'000;
  constexpr std::uint64_t kEvery = 10;
  Group group(3, kValues, {.every = kEvery}, {}, 3);
  double bytes = 0;
  group.links->tap = [&](MemoryGroup::Message* message) {
    bytes += static_cast<double>(message->payload.size());
    return true;
  };
  const std::vector<Floats> x(3, Floats(kValues, 1.0F));
  for (std::uint64_t round = 1; round <= 2 * kEvery; ++round) group.Round(round, 0b111, x);
  constexpr double kBitsPerValue = (31.0 + kEvery) / kEvery;  // the paper's, of one round
  const double theory = 2.0 * (3 - 1) * kValues / 8 * kBitsPerValue * 2 * kEvery;
  EXPECT_NEAR(bytes / theory, 1, 0.02);
}

TEST(MarsitExchangeTest, AFailedExactRoundIsDueAgain) {
  Group group(2, 50, {.every = 2}, {}, 4);
  group.Round(1, 0b11, Inputs(2, 50, 1));
  group.Round(2, 0b11, Inputs(2, 50, 2));
  for (std::uint64_t round = 3; round <= 5; ++round) {
    EXPECT_TRUE(group.members[0]->NextIsExact());
    group.Start(round, 0b11, Inputs(2, 50, 3));
    group.Drain();
    for (const auto& member : group.members) member->Rollback();
  }
  EXPECT_TRUE(group.members[0]->NextIsExact());
  group.Round(6, 0b11, Inputs(2, 50, 3));
  EXPECT_FALSE(group.members[0]->NextIsExact());
  group.members[0]->RequestExact();
  group.members[1]->RequestExact();
  EXPECT_TRUE(group.members[0]->NextIsExact());
  group.Round(7, 0b11, Inputs(2, 50, 4));
  EXPECT_FALSE(group.members[0]->NextIsExact());
}

// Starts a round and runs it up to its message `at`; false if it has fewer.
bool RunToMessage(Group* group, std::uint64_t round, std::uint64_t contributors,
                  const std::vector<Floats>& inputs, std::size_t at) {
  std::size_t sent = 0;
  group->links->tap = [&](MemoryGroup::Message*) { return ++sent != 0; };
  group->Start(round, contributors, inputs);
  while (sent < at && group->world.Step()) {
  }
  group->links->tap = nullptr;
  return sent >= at;
}

TEST(MarsitExchangeTest, AbortAtAnyMessageLeavesNothingAndTheRetryIsAFreshExchange) {
  constexpr std::size_t kValues = 300;
  const MarsitOptions options = {.every = 3, .seed = 6, .masked = {{10, 5, 7}}};
  for (const std::size_t columns : {0u, 2u}) {
    const RingOptions ring = {.columns = columns, .chunk_bytes = 160};
    for (const bool exact : {false, true}) {
      // Memories with something in them.
      Group before(4, kValues, options, ring, 7);
      for (std::uint64_t round = 1; round <= (exact ? 3 : 2); ++round) {
        before.Round(round, 0b1111, Inputs(4, kValues, static_cast<unsigned>(round)));
      }
      std::vector<Memory> memories;
      for (std::size_t r = 0; r < 4; ++r) memories.push_back(before.MemoryOf(r));
      ASSERT_EQ(memories[0].exact, exact);
      const std::vector<Floats> x = Inputs(4, kValues, 50);
      // What the round after the failed one must be: member 2 does not count any more.
      Group fresh(4, kValues, options, ring, 8);
      fresh.Restore(memories);
      const Floats expected = fresh.Round(9, 0b1011, x);
      // And with a group of the three that are left.
      const std::vector<Memory> three = {memories[0], memories[1], memories[3]};
      const std::vector<Floats> x3 = {x[0], x[1], x[3]};
      Group fresh3(3, kValues, options, ring, 9);
      fresh3.Restore(three);
      const Floats expected3 = fresh3.Round(9, 0b111, x3);

      std::size_t at = 1;
      for (;; ++at) {
        Group group(4, kValues, options, ring, static_cast<unsigned>(at));
        group.Restore(memories);
        const bool more = RunToMessage(&group, 8, 0b1111, x, at);
        for (const auto& member : group.members) member->Abort();
        std::vector<Memory> left;
        for (std::size_t r = 0; r < 4; ++r) {
          left.push_back(group.MemoryOf(r));
          ASSERT_EQ(left[r], memories[r]) << "message " << at;
        }
        ASSERT_TRUE(SameBits(group.Round(9, 0b1011, x), expected)) << "message " << at;
        for (std::size_t r = 0; r < 4; ++r) ASSERT_EQ(group.MemoryOf(r), fresh.MemoryOf(r));
        Group less(3, kValues, options, ring, static_cast<unsigned>(at));
        less.Restore({left[0], left[1], left[3]});
        ASSERT_TRUE(SameBits(less.Round(9, 0b111, x3), expected3)) << "message " << at;
        if (!more) break;
      }
      EXPECT_GE(at, 24u);
    }
  }
}

TEST(MarsitExchangeTest, AnAbortedRoundSaysSoOnceAndLeavesItsInputAlone) {
  Group group(2, 100, {}, {}, 10);
  const auto input = std::make_shared<const Buffer>([] {
    Buffer ones(400);
    for (float& value : ones.floats()) value = 1;
    return ones;
  }());
  for (std::uint64_t round = 1; round <= 40; ++round) {
    int calls = 0;
    group.members[0]->Start(round, 0b11, kRates, input, [&](Result<Buffer> result) {
      ++calls;
      EXPECT_EQ(result.status().code(), StatusCode::kAborted);
    });
    for (std::uint64_t i = 0; i < round / 4; ++i) group.world.Step();
    group.members[0]->Abort();
    group.members[0]->Abort();
    group.Drain();
    EXPECT_EQ(calls, 1);
  }
  for (const float value : input->floats()) ASSERT_EQ(value, 1.0F);
}

TEST(MarsitExchangeTest, MembersThatDoNotCountKeepTheirMemoryAndGetTheUpdate) {
  Group group(3, 90, {.every = 1000}, {.chunk_bytes = 8}, 11);
  const std::vector<Floats> x = Inputs(3, 90, 1);
  group.Round(1, 0b111, x);
  group.Round(2, 0b111, x);
  const Memory before = group.MemoryOf(1), of_two = group.MemoryOf(2);
  const Floats update = group.Round(3, 0b100, x);
  EXPECT_TRUE(SameBits(group.MemoryOf(1).compensation, before.compensation));
  EXPECT_EQ(group.MemoryOf(1).one_bit_rounds, 2u);
  for (std::size_t i = 0; i < 90; ++i) {
    const float y = 0.5F * x[2][i] + of_two.compensation[i];
    EXPECT_EQ(update[i], y >= 0 ? 0.25F : -0.25F);  // the only vote
    EXPECT_EQ(group.MemoryOf(2).compensation[i], y - update[i]);
  }
}

TEST(MarsitExchangeTest, WrongCallsAreRefused) {
  Group group(2, 10, {}, {}, 12);
  std::vector<Status> said;
  const auto note = [&](Result<Buffer> result) {
    said.push_back(result.ok() ? Status::Ok() : result.status());
  };
  const auto nine = std::make_shared<const Buffer>(Buffer(36));
  group.members[0]->Start(1, 0b11, kRates, nine, note);
  group.members[0]->Start(1, 0b11, kRates, nullptr, note);
  group.members[0]->Start(1, 0b11, {1, 0}, std::make_shared<const Buffer>(Buffer(40)), note);
  EXPECT_TRUE(said.empty());
  group.Drain();
  ASSERT_EQ(said.size(), 3u);
  for (const Status& status : said) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  Floats bad(10, 1.0F);
  bad[3] = NAN;
  group.Start(2, 0b11, {bad, Floats(10)});
  group.Drain();
  EXPECT_NE(group.results[0]->status().message().find("not finite"), std::string::npos);
  EXPECT_FALSE(group.results[1].has_value());  // it waits for member 0
  group.members[1]->Abort();
  group.Start(3, 0b11, {Floats(10), Floats(10)});
  group.Drain();
  group.members[0]->Start(4, 0b11, kRates, nine, note);
  group.Drain();
  EXPECT_EQ(said.back().code(), StatusCode::kFailedPrecondition);  // round 3 is still open
  EXPECT_FALSE(group.members[0]->Restore(Buffer(40), 0).ok());
  group.members[0]->Rollback();
  EXPECT_FALSE(group.members[0]->Restore(Buffer(36), 0).ok());
  EXPECT_FALSE(group.members[0]->Restore(Buffer::CopyOf(std::as_bytes(std::span(bad))), 0).ok());
  EXPECT_FALSE(NewMarsitExchange({.every = 0}, 10, group.rings[0].get(), group.control.get()).ok());
}

TEST(MarsitExchangeTest, VectorsShareARingOneAfterTheOther) {
  constexpr std::size_t kValues = 40;
  Group group(2, kValues, {.every = 1000, .seed = 1}, {}, 13);
  Group alone(2, kValues, {.every = 1000, .seed = 2}, {}, 14);
  std::vector<std::unique_ptr<MarsitExchange>> second;
  for (std::size_t r = 0; r < 2; ++r) {
    second.push_back(*NewMarsitExchange({.every = 1000, .seed = 2}, kValues, group.rings[r].get(),
                                        group.control.get()));
  }
  for (std::uint64_t round = 1; round <= 8; round += 2) {
    group.Round(round, 0b11, Inputs(2, kValues, static_cast<unsigned>(round)));
    const std::vector<Floats> x = Inputs(2, kValues, static_cast<unsigned>(round + 1));
    std::vector<Floats> updates(2);
    for (std::size_t r = 0; r < 2; ++r) {
      const auto input =
          std::make_shared<const Buffer>(Buffer::CopyOf(std::as_bytes(std::span(x[r]))));
      second[r]->Start(round + 1, 0b11, kRates, input, [&updates, r](Result<Buffer> update) {
        ASSERT_TRUE(update.ok()) << update.status().ToString();
        updates[r].assign(update->floats().begin(), update->floats().end());
      });
    }
    while (group.rings[0]->Awaited().empty() && group.world.Step()) {
    }
    for (const auto& member : group.members) member->Abort();  // no round of theirs runs
    group.Drain();
    for (const auto& member : second) member->Commit();
    const Floats expected = alone.Round(round + 1, 0b11, x);
    EXPECT_TRUE(SameBits(updates[0], expected));
    EXPECT_TRUE(SameBits(updates[1], expected));
  }
}

TEST(MarsitExchangeTest, DestructionAtAnyMomentCallsNothing) {
  for (unsigned steps = 0; steps < 40; ++steps) {
    Group group(2, 64, {}, {}, steps);
    group.Start(1, 0b11, Inputs(2, 64, steps));
    for (unsigned i = 0; i < steps; ++i) group.world.Step();
    const bool had_result = group.results[0].has_value();
    group.members[0].reset();
    group.Drain();
    EXPECT_EQ(group.results[0].has_value(), had_result);
  }
}

// Chunk by chunk, with and without memory that is used again, as in one place over whole vectors.
TEST(MarsitExchangeTest, RoundsAreTheBitsOfTheReference) {
  constexpr std::size_t kMembers = 3, kValues = 1500;
  for (const bool reuse : {false, true}) {
    const MarsitOptions options = {
        .every = 4, .seed = 5, .masked = {{64, 130, 10}}, .reuse_memory = reuse};
    Group group(kMembers, kValues, options, {.chunk_bytes = 24}, 15);
    std::vector<Floats> memories(kMembers, Floats(kValues));
    for (std::uint64_t round = 1; round <= 12; ++round) {
      const bool exact = group.members[0]->NextIsExact();
      const std::uint64_t contributors = round % 3 == 0 ? 0b110 : 0b111;
      std::vector<Floats> x = Inputs(kMembers, kValues, static_cast<unsigned>(round));
      for (Floats& values : x) {
        for (std::size_t i = 100; i < 700; ++i) values[i] = i % 7 == round % 7 ? values[i] : 0;
      }
      std::vector<Buffer> vectors;
      for (std::size_t m = 0; m < kMembers; ++m) {
        vectors.push_back(reference::Open(options, kRates, exact, memories[m], x[m]));
      }
      const auto merge = MarsitMerge(options, kValues, exact);
      if (round % 3 == 0) std::memset(vectors[0].data(), 0, vectors[0].size());
      const Buffer merged = reference::MergeAround(vectors, *merge, round, contributors);
      const auto count = static_cast<std::uint32_t>(std::popcount(contributors));
      group.Start(round, contributors, x);
      group.Drain();
      if (round % 3 == 0) x[0].clear();
      for (std::size_t m = 0; m < kMembers; ++m) {
        auto expected = reference::Close(options, kRates, exact, count, memories[m], x[m], merged);
        ASSERT_TRUE(SameBits(group.UpdateOf(m), expected.update)) << round;
        memories[m] = std::move(expected.compensation);
        group.members[m]->Commit();
        ASSERT_TRUE(SameBits(group.members[m]->compensation(), memories[m])) << round;
        group.members[m]->Recycle(std::move(**group.results[m]));
      }
    }
  }
}

}  // namespace
}  // namespace shoal::collective
