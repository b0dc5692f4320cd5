// Exchanges with the threads of a real peer: a control thread and a compute pool per member.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "replica/collective/exchange.h"
#include "replica/collective/power_sgd_exchange.h"
#include "tests/support/executor_group.h"
#include "tests/support/on_executor.h"

namespace shoal::collective {
namespace {

using test_support::RunOn;
using test_support::WaitUntil;

class ThreadGroup {
 public:
  struct Peer {
    std::size_t rank = 0;
    // Control only, as the rest.
    std::unique_ptr<Exchange> exchange;
    BlendingExchange* blending = nullptr;  // it, or what it uses
    int rounds_done = 0, aborted = 0;
    std::vector<float> last;
    std::unique_ptr<Executor> control = NewThreadExecutor("control");
    std::unique_ptr<Executor> compute = NewThreadPool("compute", 2);  // its tasks post to control
  };

  // `late` counts callbacks that come when their exchange is gone.
  // With `tensors` factors of them go.
  ThreadGroup(std::size_t members, const ExchangeConfig& config,
              std::shared_ptr<std::atomic<int>> late = std::make_shared<std::atomic<int>>(0),
              const std::vector<std::vector<std::size_t>>& tensors = {})
      : late_(std::move(late)), combine_(tensors.empty() ? Combine::kWeightedMean : Combine::kSum) {
    for (std::size_t r = 0; r < members; ++r) {
      peers_.push_back(std::make_unique<Peer>());
      peers_[r]->rank = r;
      links_.Add(peers_[r]->control.get());
    }
    for (auto& peer : peers_) {
      RunOn(peer->control.get(), [&] {
        auto made = NewBlendingExchange(config, links_.member(peer->rank), peer->control.get(),
                                        peer->compute.get())
                        .value();
        peer->blending = made.get();
        peer->exchange = std::move(made);
        if (tensors.empty()) return 0;
        PowerSgdExchangeConfig factors;
        factors.options = {.rank = 2, .start = 2, .stages = ""};
        factors.rank = peer->rank;
        factors.tensors = tensors;
        factors.reuse_memory = true;
        peer->exchange = NewPowerSgdExchange(factors, std::move(peer->exchange),
                                             peer->control.get(), peer->compute.get());
        return 0;
      });
    }
  }
  ~ThreadGroup() {
    for (auto& peer : peers_) {
      RunOn(peer->control.get(), [&] { return peer->exchange.reset(), 0; });
    }
    for (auto& peer : peers_) peer->compute.reset();  // runs what was posted
    for (auto& peer : peers_) RunOn(peer->control.get(), [] { return 0; });
  }

  // The round counts by `factor`.
  void Start(Peer* peer, std::uint64_t round, std::shared_ptr<const Buffer> values,
             double factor = 1) {
    peer->control->Post("start", [this, peer, round, values, factor] {
      const std::vector<std::uint64_t> weights(peers_.size(), 2);
      peer->exchange->Start({round, 0, weights, combine_, values}, [peer, factor, late = late_](
                                                                       Result<Buffer> sum) {
        if (!peer->exchange) {
          ++*late;
          return;
        }
        if (!sum.ok()) {
          ++peer->rounds_done;
          ++peer->aborted;
          return;
        }
        const std::span<const float> got = std::as_const(*sum).floats();
        peer->last.assign(got.begin(), got.end());
        peer->exchange->Recycle(std::move(*sum));
        if (factor != 1) {
          return peer->blending->CommitPart(factor, [peer](const Status&) { ++peer->rounds_done; });
        }
        ++peer->rounds_done;
        peer->exchange->Commit();
      });
    });
  }

  const std::shared_ptr<std::atomic<int>> late_;
  const Combine combine_;
  test_support::ExecutorGroup links_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

std::shared_ptr<const Buffer> Ramp(std::size_t count, float factor) {
  Buffer values(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    values.floats()[i] = factor * (static_cast<float>(i % 101) - 50);
  }
  return std::make_shared<const Buffer>(std::move(values));
}

TEST(ExchangeThreadsTest, RoundsAgreeAndAbortsInBetweenHarmNobody) {
  ExchangeConfig config;
  config.codec = "onebit";
  config.error_feedback = true;
  config.reuse_memory = true;
  config.row = 64;
  config.chunk_values = 1024;
  ThreadGroup group(3, config);
  int rounds = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    for (auto& peer : group.peers_) {
      group.Start(peer.get(), round, Ramp(20000, static_cast<float>(1 + peer->rank)));
    }
    ++rounds;
    const bool abort = round % 3 == 0;
    for (auto& peer : group.peers_) {
      if (abort) peer->control->Post("abort", [&peer] { peer->exchange->Rollback(); });
    }
    for (auto& peer : group.peers_) {
      ASSERT_TRUE(WaitUntil(peer->control.get(), [&] { return peer->rounds_done == rounds; }));
    }
    if (abort) continue;
    for (auto& peer : group.peers_) EXPECT_EQ(peer->last, group.peers_[0]->last);
  }
  EXPECT_LE(group.peers_[0]->aborted, 6);
}

TEST(ExchangeThreadsTest, RoundsThatCountInPartDependOnNothingElse) {
  ExchangeConfig config;
  config.codec = "onebit";
  config.error_feedback = true;
  config.reuse_memory = true;
  config.row = 64;
  config.chunk_values = 1024;
  std::vector<float> first;
  for (int again = 0; again < 3; ++again) {
    ThreadGroup group(3, config);
    for (int round = 1; round <= 12; ++round) {
      for (auto& peer : group.peers_) {
        group.Start(peer.get(), static_cast<std::uint64_t>(round),
                    Ramp(20000, static_cast<float>(1 + peer->rank)), round % 2 == 0 ? 0.3 : 1.2);
      }
      for (auto& peer : group.peers_) {
        ASSERT_TRUE(WaitUntil(peer->control.get(), [&] { return peer->rounds_done == round; }));
      }
    }
    for (auto& peer : group.peers_) {
      if (first.empty()) first = peer->last;
      EXPECT_EQ(peer->last, first);
    }
  }
}

TEST(ExchangeThreadsTest, DestructionWhileWorkRunsIsQuiet) {
  const auto late = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 10; ++i) {
    ExchangeConfig config;
    config.codec = "direct:bits=4,bucket=64";
    config.row = 64;
    config.chunk_values = 1024;
    ThreadGroup group(2, config, late);
    for (auto& peer : group.peers_) group.Start(peer.get(), 1, Ramp(50000, 1));
    std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
  }
  EXPECT_EQ(*late, 0);  // a running round ends without its callback
}

// Enough values for several tasks at once.
const std::vector<std::vector<std::size_t>> kTensors{{1024, 1100}, {300}, {1100, 1000}};
constexpr std::size_t kTensorValues = 1024 * 1100 + 300 + 1100 * 1000;

TEST(ExchangeThreadsTest, FactorsOfManyTasksAgreeAndAbortsInBetweenHarmNobody) {
  const auto late = std::make_shared<std::atomic<int>>(0);
  ThreadGroup group(2, {}, late, kTensors);
  int rounds = 0;
  const auto run = [&](std::uint64_t round, bool abort) {
    for (auto& peer : group.peers_) {
      group.Start(peer.get(), round, Ramp(kTensorValues, static_cast<float>(1 + peer->rank)));
    }
    ++rounds;
    if (abort) {
      // Of both before either can be through: both must go on from the same memory.
      std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
      for (auto& peer : group.peers_)
        peer->control->Post("abort", [&peer] { peer->exchange->Rollback(); });
    }
    for (auto& peer : group.peers_) {
      ASSERT_TRUE(WaitUntil(peer->control.get(), [&] { return peer->rounds_done == rounds; }));
    }
    if (abort) return;
    for (auto& peer : group.peers_) EXPECT_EQ(peer->last, group.peers_[0]->last) << round;
  };
  for (std::uint64_t round = 3; round <= 6; ++round) run(round, false);
  run(7, true);
  const bool both = group.peers_[0]->aborted == 1 && group.peers_[1]->aborted == 1;
  for (std::uint64_t round = 8; round <= 10 && both; ++round) run(round, false);
  EXPECT_EQ(*late, 0);
}

TEST(ExchangeThreadsTest, DestructionWhileTensorsAreAtWorkIsQuiet) {
  const auto late = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 6; ++i) {
    ThreadGroup group(2, {}, late, kTensors);
    for (auto& peer : group.peers_) group.Start(peer.get(), 3, Ramp(kTensorValues, 1));
    std::this_thread::sleep_for(std::chrono::microseconds(1500 * i));
  }
  EXPECT_EQ(*late, 0);
}

}  // namespace
}  // namespace shoal::collective
