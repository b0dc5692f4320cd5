// Rings with real threads: a control thread for all members, a pool for each member's work.

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>

#include "replica/collective/ring/marsit_exchange.h"
#include "tests/support/executor_group.h"
#include "tests/support/on_executor.h"
#include "tests/unit/replica/collective/ring/ring_group.h"

namespace shoal::collective {
namespace {

using Floats = std::vector<float>;
using test_support::RunOn;

constexpr std::size_t kMembers = 4;
constexpr std::uint64_t kAll = (1u << kMembers) - 1;

class ThreadGroup {
 public:
  ThreadGroup() : control_(NewThreadExecutor("control")) {
    for (std::size_t r = 0; r < kMembers; ++r) {
      group_.Add(control_.get());
      compute_.push_back(NewThreadPool("compute", 2));
    }
    group_.before_delivery = [this] {
      if (--abort_after_ != 0) return;
      for (const auto& marsit : marsits) marsit->Abort();
      for (const auto& ring : rings) ring->Abort();
    };
    RunOn(control_.get(), [&] {
      for (std::size_t r = 0; r < kMembers; ++r) {
        rings.push_back(NewRingReduce(group_.member(r), control_.get(), compute_[r].get(),
                                      {.columns = 2, .chunk_bytes = 256}));
        marsits.push_back(*NewMarsitExchange(
            {.every = 3, .seed = 4, .masked = {{99, 50, 20}}, .reuse_memory = true}, 2000,
            rings[r].get(), control_.get()));
      }
      return 0;
    });
  }
  ~ThreadGroup() {
    RunOn(control_.get(), [&] {
      marsits.clear();
      rings.clear();
      return 0;
    });
    compute_.clear();
  }

  // What each member's `start` ends with. All members give up after `abort_after` messages, or, at
  // 0, never.
  using Done = std::function<void(Result<Buffer>)>;
  std::vector<Result<Buffer>> Round(int abort_after,
                                    const std::function<void(std::size_t, Done)>& start) {
    std::vector<std::shared_ptr<std::promise<Result<Buffer>>>> promises(kMembers);
    for (auto& promise : promises) promise = std::make_shared<std::promise<Result<Buffer>>>();
    RunOn(control_.get(), [&] {  // all in one task: a member that starts after an abort would wait
      abort_after_ = abort_after;
      for (std::size_t r = 0; r < kMembers; ++r) {
        start(r, [promise = promises[r]](Result<Buffer> result) {
          promise->set_value(std::move(result));
        });
      }
      return 0;
    });
    std::vector<Result<Buffer>> results;
    for (auto& promise : promises) results.push_back(promise->get_future().get());
    return results;
  }
  Executor* control() { return control_.get(); }

  std::vector<std::unique_ptr<RingReduce>> rings;
  std::vector<std::unique_ptr<MarsitExchange>> marsits;

 private:
  test_support::ExecutorGroup group_;
  std::unique_ptr<Executor> control_;
  std::vector<std::unique_ptr<Executor>> compute_;
  int abort_after_ = 0;  // control only
};

std::vector<Floats> Inputs() {
  std::mt19937 random(9);
  std::vector<Floats> values(kMembers, Floats(2000));
  for (Floats& of_member : values) {
    for (float& value : of_member) value = static_cast<float>(random() % 1000) / 7 - 70;
  }
  return values;
}

std::span<const std::byte> BytesOf(const Result<Buffer>& result) {
  return std::as_const(*result).bytes();
}

TEST(RingThreadsTest, SumsAndAborts) {
  const std::vector<Floats> values = Inputs();
  const Floats expected = SumInHopOrder({2, 2}, values, kAll);
  ThreadGroup group;
  std::uint64_t round = 0;
  for (const int abort_after : {0, 1, 7, 40, 90, 0}) {
    ++round;
    const auto results = group.Round(abort_after, [&](std::size_t r, ThreadGroup::Done done) {
      group.rings[r]->Start({.round = round,
                             .contributors = kAll,
                             .label = "test",
                             .vector = Buffer::CopyOf(std::as_bytes(std::span(values[r]))),
                             .merge = NewSumMerge()},
                            std::move(done));
    });
    for (const Result<Buffer>& result : results) {
      if (!result.ok()) {
        EXPECT_NE(abort_after, 0) << result.status().ToString();
        EXPECT_EQ(result.status().code(), StatusCode::kAborted);
        continue;
      }
      EXPECT_TRUE(std::ranges::equal(BytesOf(result), std::as_bytes(std::span(expected))));
    }
  }
}

TEST(RingThreadsTest, MarsitRoundsAndAborts) {
  std::vector<std::shared_ptr<const Buffer>> inputs;
  for (const Floats& of_member : Inputs()) {
    inputs.push_back(
        std::make_shared<const Buffer>(Buffer::CopyOf(std::as_bytes(std::span(of_member)))));
  }
  ThreadGroup group;
  std::uint64_t round = 0;
  for (const int abort_after : {0, 0, 1, 9, 20, 0, 0, 0}) {
    ++round;
    const auto results = group.Round(abort_after, [&](std::size_t r, ThreadGroup::Done done) {
      group.marsits[r]->Start(round, kAll, {1, 0.5F}, inputs[r], std::move(done));
    });
    bool all = true;
    for (const Result<Buffer>& result : results) all = all && result.ok();
    EXPECT_TRUE(all || abort_after != 0) << "round " << round;
    for (const Result<Buffer>& result : results) {
      if (all) {
        EXPECT_TRUE(std::ranges::equal(BytesOf(result), BytesOf(results[0])));
      }
    }
    RunOn(group.control(), [&] {
      for (const auto& marsit : group.marsits) all ? marsit->Commit() : marsit->Abort();
      return 0;
    });
  }
  RunOn(group.control(), [&] {
    for (const auto& marsit : group.marsits) {
      EXPECT_EQ(marsit->one_bit_rounds(), group.marsits[0]->one_bit_rounds());
    }
    return 0;
  });
}

}  // namespace
}  // namespace shoal::collective
