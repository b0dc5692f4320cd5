// A stage group in virtual time whose members exchange over links with random delays.

#ifndef SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_GROUP_H_
#define SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_GROUP_H_

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "replica/collective/exchange.h"
#include "tests/support/memory_group.h"
#include "tests/support/sim_executor.h"

namespace shoal::collective {

using Values = std::vector<float>;

inline bool SameBits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline std::shared_ptr<const Buffer> Shared(
    const Values& values, const compression::ValueHome& home = *compression::HostValues()) {
  auto shared = std::make_shared<Buffer>(home.Allocate(values.size()).value());
  EXPECT_TRUE(home.CopyFromHost(std::as_bytes(std::span(values)), shared->floats()).ok());
  return shared;
}

class ExchangeGroup {
 public:
  using Make = std::function<Result<std::unique_ptr<Exchange>>(GroupChannel*, Executor* control,
                                                               Executor* compute)>;

  ExchangeGroup(std::size_t size, unsigned seed, ExchangeConfig config = {})
      : ExchangeGroup(size, seed, [config](auto* channel, auto* control, auto* compute) {
          return NewDirectExchange(config, channel, control, compute);
        }) {}
  ExchangeGroup(std::size_t size, unsigned seed, const Make& make) : seed_(seed), random_(seed) {
    const auto some = [this] { return std::chrono::microseconds(random_() % 1000); };
    control_ = world_.NewExecutor("control");
    links_ = std::make_unique<test_support::MemoryGroup>(&world_, control_.get(), size, some);
    for (std::size_t r = 0; r < size; ++r) {
      compute_.push_back(world_.NewExecutor("compute", [some](const char*) { return some(); }));
      auto made = make(links_->member(r), control_.get(), compute_[r].get());
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      exchange_.push_back(std::move(made).value());
    }
    results_.resize(size);
  }

  std::size_t size() const { return exchange_.size(); }

  Values Random(std::size_t count) {
    std::normal_distribution<float> normal(0, 100);
    Values values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::vector<Values> RandomOfAll(std::size_t count) {
    std::vector<Values> values;
    for (std::size_t r = 0; r < size(); ++r) values.push_back(Random(count));
    return values;
  }

  // Starts on the control executor after a random time.
  void Start(std::size_t rank, ExchangeRequest request) {
    results_[rank].reset();
    control_->PostAfter("start", std::chrono::microseconds(random_() % 3000),
                        [this, rank, request = std::move(request)] {
                          exchange_[rank]->Start(request, [this, rank](Result<Buffer> sum) {
                            results_[rank] = std::move(sum);
                          });
                        });
  }
  // Starts all members at random times, with `base` and their values; runs to the end.
  void Round(ExchangeRequest base, const std::vector<Values>& values) {
    for (std::size_t r = 0; r < size(); ++r) {
      base.values = Shared(values[r], exchange_[r]->home());
      Start(r, base);
    }
    Drain();
  }
  void Round(std::uint64_t round, std::vector<std::uint64_t> weights,
             const std::vector<Values>& values, Combine combine = Combine::kSum) {
    ExchangeRequest base;
    base.round = round;
    base.weights = std::move(weights);
    base.combine = combine;
    Round(std::move(base), values);
  }
  void Commit() {
    for (auto& exchange : exchange_) exchange->Commit();
  }
  void Drain() {
    while (world_.Step()) {
    }
  }
  // The agreed values, which must be the same on all members.
  Values Agreed() {
    for (std::size_t r = 1; r < size(); ++r) {
      EXPECT_TRUE(SameBits(ValuesOf(r), ValuesOf(0))) << "member " << r << ", seed " << seed_;
    }
    return ValuesOf(0);
  }
  Values ValuesOf(std::size_t rank) {
    EXPECT_TRUE(results_[rank].has_value()) << "member " << rank << ", seed " << seed_;
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

  const unsigned seed_;  // of values and delays
  std::mt19937 random_;
  test_support::SimWorld world_;
  std::unique_ptr<Executor> control_;
  std::vector<std::unique_ptr<Executor>> compute_;
  std::unique_ptr<test_support::MemoryGroup> links_;
  std::vector<std::unique_ptr<Exchange>> exchange_;
  std::vector<std::optional<Result<Buffer>>> results_;
};

}  // namespace shoal::collective

#endif  // SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_GROUP_H_
