// RingGroup: a stage group in virtual time whose members exchange by ring or torus, with random
// delays of messages and of work.

#ifndef SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_RING_RING_GROUP_H_
#define SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_RING_RING_GROUP_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "replica/collective/ring/ring_plan.h"
#include "replica/collective/ring/ring_reduce.h"
#include "tests/support/memory_group.h"
#include "tests/support/sim_executor.h"

namespace shoal::collective {

// The obvious sum of a torus: along each row from the slice's column, then down the rows.
inline std::vector<float> SumInHopOrder(const Torus& torus,
                                        const std::vector<std::vector<float>>& values,
                                        std::uint64_t contributors) {
  const std::size_t R = torus.rows, C = torus.columns, n = values[0].size();
  std::vector<float> sum(n);
  for (std::size_t s = 0; s < R * C; ++s) {
    const Extent extent = SliceOf(n, s, R * C);
    for (std::size_t i = extent.begin; i < extent.end; ++i) {
      std::optional<float> total;
      for (std::size_t row = 0; row < R; ++row) {
        std::optional<float> of_row;
        const std::size_t r = (s % R + row) % R;
        for (std::size_t column = 0; column < C; ++column) {
          const std::size_t member = r * C + (s / R + column) % C;
          if ((contributors >> member & 1) == 0) continue;
          of_row = of_row ? *of_row + values[member][i] : values[member][i];
        }
        if (of_row) total = total ? *total + *of_row : *of_row;
      }
      sum[i] = *total;
    }
  }
  return sum;
}

class RingGroup {
 public:
  RingGroup(std::size_t size, unsigned seed, const RingOptions& options) : random(seed) {
    const auto some = [this] { return std::chrono::microseconds(random() % 1000); };
    control = world.NewExecutor("control");
    links = std::make_unique<test_support::MemoryGroup>(&world, control.get(), size, some);
    for (std::size_t r = 0; r < size; ++r) {
      compute.push_back(world.NewExecutor("compute", [some](const char*) { return some(); }));
      rings.push_back(NewRingReduce(links->member(r), control.get(), compute[r].get(), options));
    }
    results.resize(size);
  }

  std::vector<float> Random(std::size_t count) {
    std::normal_distribution<float> normal(0, 100);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
  }
  template <typename T>
  void Start(std::size_t rank, std::uint64_t round, std::uint64_t contributors,
             const std::vector<T>& values, std::shared_ptr<const RingMerge> merge) {
    results[rank].reset();
    rings[rank]->Start({.round = round,
                        .contributors = contributors,
                        .label = "test",
                        .vector = Buffer::CopyOf(std::as_bytes(std::span(values))),
                        .merge = std::move(merge)},
                       [this, rank](Result<Buffer> sum) { results[rank] = std::move(sum); });
  }
  // Starts all members at random times and runs to the end.
  template <typename T>
  void Round(std::uint64_t round, std::uint64_t contributors,
             const std::vector<std::vector<T>>& values,
             const std::shared_ptr<const RingMerge>& merge) {
    for (std::size_t r = 0; r < rings.size(); ++r) {
      control->PostAfter("start", std::chrono::microseconds(random() % 5000),
                         [=, this, v = values[r]] { Start(r, round, contributors, v, merge); });
    }
    Drain();
  }
  void Drain() {
    while (world.Step()) {
    }
  }
  template <typename T>
  std::vector<T> Values(std::size_t rank) {
    const Status status = StatusOf(rank);
    EXPECT_TRUE(status.ok()) << "member " << rank << ": " << status.ToString();
    if (!status.ok()) return {};
    const Buffer& sum = **results[rank];
    std::vector<T> values(sum.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), sum.data(), sum.size());
    return values;
  }
  Status StatusOf(std::size_t rank) {
    if (!results[rank].has_value()) return Unavailable("no result");
    return results[rank]->ok() ? Status::Ok() : results[rank]->status();
  }

  std::mt19937 random;
  test_support::SimWorld world;
  std::unique_ptr<Executor> control;
  std::vector<std::unique_ptr<Executor>> compute;
  std::unique_ptr<test_support::MemoryGroup> links;
  std::vector<std::unique_ptr<RingReduce>> rings;
  std::vector<std::optional<Result<Buffer>>> results;
};

}  // namespace shoal::collective

#endif  // SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_RING_RING_GROUP_H_
