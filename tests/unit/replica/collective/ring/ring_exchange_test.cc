#include "replica/collective/ring/ring_exchange.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/unit/replica/collective/exchange_group.h"
#include "tests/unit/replica/collective/ring/ring_group.h"

namespace shoal::collective {
namespace {

// A group of the direct exchange's tests whose members exchange by hops instead.
class HopGroup : public ExchangeGroup {
 public:
  HopGroup(std::size_t size, unsigned seed, const RingOptions& options)
      : ExchangeGroup(size, seed) {
    for (std::size_t r = 0; r < size; ++r) {
      exchange_[r].reset();  // gives the channel's receiver back
      exchange_[r] = NewRingExchange(options, links_->member(r), control_.get(), compute_[r].get());
    }
  }
};

// Starts at once, not after a random time.
void StartNow(HopGroup* group, std::size_t rank, const ExchangeRequest& request) {
  group->results_[rank].reset();
  bool started = false;
  group->control_->Post("start", [group, rank, request, &started] {
    started = true;
    group->exchange_[rank]->Start(request, [group, rank](Result<Buffer> result) {
      group->results_[rank] = std::move(result);
    });
  });
  while (!started) group->world_.Step();
}

std::uint64_t MaskOf(const std::vector<std::uint64_t>& weights) {
  std::uint64_t mask = 0;
  for (std::size_t r = 0; r < weights.size(); ++r) mask |= (weights[r] != 0 ? 1ull : 0) << r;
  return mask;
}

// members, columns, values
class RingExchangeSizes : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(RingExchangeSizes, EqualsTheSumInHopOrderBitForBit) {
  const auto [members, columns, count] = GetParam();
  const Torus torus = TorusOf(members, columns);
  HopGroup group(members, 100 * members + count,
                 {.columns = static_cast<std::size_t>(columns), .chunk_bytes = 256});
  for (std::uint64_t round = 1; round <= 6; ++round) {
    std::vector<Values> values = group.RandomOfAll(count);
    std::vector<std::uint64_t> weights(members);
    for (auto& weight : weights) weight = group.random_() % 3;
    weights[group.random_() % members] = 5;
    const Combine combine = round % 2 == 0 ? Combine::kWeightedMean : Combine::kSum;
    group.Round(round, weights, values, combine);
    std::uint64_t all = 0;
    for (const std::uint64_t weight : weights) all += weight;
    for (int r = 0; combine == Combine::kWeightedMean && r < members; ++r) {
      const auto share =
          static_cast<float>(static_cast<double>(weights[r]) / static_cast<double>(all));
      for (float& value : values[r]) value *= share;
    }
    EXPECT_TRUE(SameBits(group.Agreed(), SumInHopOrder(torus, values, MaskOf(weights))))
        << "round " << round;
    group.Commit();
  }
}

INSTANTIATE_TEST_SUITE_P(All, RingExchangeSizes,
                         testing::Combine(testing::Values(1, 2, 4, 5, 6), testing::Values(0, 2),
                                          testing::Values(0, 1, 7, 1001)));

TEST(RingExchangeTest, RetryAfterRollbackAtAnyMomentIsAFreshExchange) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    HopGroup group(3, seed, {.chunk_bytes = 64});
    const std::vector<Values> values = group.RandomOfAll(100);
    const std::vector<std::shared_ptr<const Buffer>> inputs = {Shared(values[0]), Shared(values[1]),
                                                               Shared(values[2])};
    for (std::size_t r = 0; r < 3; ++r) {
      StartNow(&group, r, {1, 0, {1, 1, 1}, Combine::kSum, inputs[r]});
    }
    for (unsigned i = 0; i < 2 * seed; ++i) group.world_.Step();
    for (std::size_t r = 0; r < 3; ++r) {
      group.exchange_[r]->Rollback();
      group.world_.Step();
      StartNow(&group, r, {2, 0, {1, 0, 1}, Combine::kSum, inputs[r]});
    }
    group.Drain();
    EXPECT_TRUE(SameBits(group.Agreed(), SumInHopOrder(RingOf(3), values, 0b101))) << seed;
    for (std::size_t r = 0; r < 3; ++r) {
      const auto input = inputs[r]->floats();
      EXPECT_TRUE(SameBits({input.begin(), input.end()}, values[r]));
    }
  }
}

TEST(RingExchangeTest, OtherTensorsOrWeightsNeverMerge) {
  for (const bool tensor : {false, true}) {
    HopGroup group(2, 3, {});
    const auto values = Shared(Values(10, 1.0f));
    group.Start(0, {1, 0, {1, 1}, Combine::kSum, values});
    group.Start(1, {1, tensor ? 1u : 0u, {1, tensor ? 1u : 2u}, Combine::kSum, values});
    group.Drain();
    EXPECT_NE(group.StatusOf(0).message().find("another vector, method or contributors"),
              std::string::npos)
        << group.StatusOf(0).ToString();
  }
}

TEST(RingExchangeTest, WrongRequestsAreRefused) {
  HopGroup group(2, 4, {});
  const auto code = [&](ExchangeRequest request) {
    group.Start(0, std::move(request));
    group.Drain();
    return group.StatusOf(0).code();
  };
  const auto values = Shared(Values(3));
  const auto odd = std::make_shared<const Buffer>(Buffer(5));
  constexpr StatusCode kRefused = StatusCode::kInvalidArgument;
  EXPECT_EQ(code({1, 0, {1}, Combine::kSum, values}), kRefused);
  EXPECT_EQ(code({1, 0, {0, 0}, Combine::kSum, values}), kRefused);
  EXPECT_EQ(code({1, 0, {UINT64_MAX, 1}, Combine::kSum, values}), kRefused);
  EXPECT_EQ(code({1, 0, {1, 1}, Combine::kSum, nullptr}), kRefused);
  EXPECT_EQ(code({1, 0, {1, 1}, Combine::kSum, odd}), kRefused);
  group.Round(1, {1, 1}, {Values(3, 1.0f), Values(3, 2.0f)});
  EXPECT_EQ(group.Agreed(), Values(3, 3.0f));
  EXPECT_EQ(code({1, 0, {1, 1}, Combine::kSum, values}), kRefused);  // a round does not repeat
}

TEST(RingExchangeTest, DestructionAtAnyMomentCallsNothing) {
  for (unsigned steps = 0; steps < 60; ++steps) {
    HopGroup group(2, steps, {.chunk_bytes = 16});
    const auto values = Shared(Values(20, 1.0f));
    for (std::size_t r = 0; r < 2; ++r) {
      StartNow(&group, r, {1, 0, {1, 1}, Combine::kSum, values});
    }
    for (unsigned i = 0; i < steps; ++i) group.world_.Step();
    const bool had = group.results_[0].has_value();
    if (!had) {
      group.exchange_[0].reset();
      group.Drain();
      EXPECT_FALSE(group.results_[0].has_value()) << steps;
    }
  }
}

}  // namespace
}  // namespace shoal::collective
