// Exchanges over lines of limited rates, in virtual time: how near they come to what the lines
// allow.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "replica/collective/exchange.h"
#include "replica/collective/shares.h"
#include "tests/support/sim_executor.h"
#include "tests/unit/replica/collective/exchange_time.h"

namespace shoal::collective {
namespace {

using test_support::SimWorld;

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Members behind one line each, which carries one message after the other, each way.
class Lines {
 public:
  Lines(std::vector<MemberRates> rates, Duration latency, const ExchangeConfig& config)
      : rates_(std::move(rates)), latency_(latency) {
    control_ = world_.NewExecutor("control");
    for (std::size_t r = 0; r < rates_.size(); ++r) {
      ends_.push_back(std::make_unique<End>(this, r));
      compute_.push_back(world_.NewExecutor("compute", [](const char*) { return Seconds(1e-4); }));
      exchange_.push_back(
          NewDirectExchange(config, ends_[r].get(), control_.get(), compute_[r].get()).value());
    }
  }

  // What comes to a member stands still for so long, so long behind the begin of the next round.
  void Pause(std::size_t member, Duration after, Duration length) {
    world_.At(world_.Now() + after, [=, this] {
      TimePoint& down = ends_[member]->down_free;
      down = std::max(down, world_.Now()) + length;
    });
  }

  // Seconds of a round in which everybody counts.
  double Round(const std::shared_ptr<const Buffer>& values) {
    const TimePoint begin = world_.Now();
    TimePoint end = begin;
    std::size_t done = 0;
    control_->Post("start", [&] {
      for (auto& exchange : exchange_) {
        const std::vector<std::uint64_t> weights(rates_.size(), 1);
        exchange->Start({1, 0, weights, Combine::kSum, values}, [&](Result<Buffer> sum) {
          EXPECT_TRUE(sum.ok()) << sum.status().ToString();
          end = world_.Now();
          ++done;
        });
      }
    });
    while (world_.Step()) {
    }
    EXPECT_EQ(done, rates_.size());
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  struct End final : GroupChannel {
    End(Lines* of, std::size_t place) : lines(of), own_rank(place) {}
    std::size_t size() const override { return lines->rates_.size(); }
    std::size_t rank() const override { return own_rank; }
    Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
      return lines->Send(own_rank, to, tag, std::move(payload)), Status::Ok();
    }
    void SetReceiver(Receiver next) override { receiver = std::move(next); }

    Lines* const lines;
    const std::size_t own_rank;
    Receiver receiver;
    TimePoint up_free{}, down_free{};
  };

  void Send(std::size_t from, std::size_t to, std::uint64_t tag, Buffer payload) {
    const double bytes = static_cast<double>(payload.size());
    TimePoint& up = ends_[from]->up_free;
    up = std::max(up, world_.Now()) + Seconds(bytes / rates_[from].up);
    auto held = std::make_shared<Buffer>(std::move(payload));
    world_.At(up + latency_, [=, this] {
      TimePoint& down = ends_[to]->down_free;
      down = std::max(down, world_.Now()) + Seconds(bytes / rates_[to].down);
      world_.At(down, [=, this] {
        control_->Post("deliver", [=, this] { ends_[to]->receiver(from, tag, std::move(*held)); });
      });
    });
  }

  SimWorld world_;
  const std::vector<MemberRates> rates_;
  const Duration latency_;
  std::unique_ptr<Executor> control_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Executor>> compute_;
  std::vector<std::unique_ptr<Exchange>> exchange_;
};

constexpr std::size_t kValues = 1000000;
constexpr double kMegabit = 1e6 / 8;

std::shared_ptr<const Buffer> Zeros() {
  Buffer values(kValues * sizeof(float));
  std::memset(values.data(), 0, values.size());
  return std::make_shared<const Buffer>(std::move(values));
}

// A hundredth of a large vector on lines of a hundredth of the rate, in chunks of a hundredth.
ExchangeConfig Hundredth() {
  ExchangeConfig config;
  config.row = 64;
  config.chunk_values = 1280;
  config.window_bytes = (16u << 20) / 100;
  return config;
}

TEST(ExchangeLinkLimitTest, ALargeVectorTakesLittleMoreThanItsBytes) {
  for (const std::size_t members : {2u, 4u, 8u}) {
    const double rate = 100 * kMegabit / 100;
    Lines lines(std::vector<MemberRates>(members, {rate, rate}), std::chrono::milliseconds(30),
                Hundredth());
    const double d = static_cast<double>(members);
    const double limit = 2 * (d - 1) / d * 4 * kValues / rate;
    const double took = lines.Round(Zeros());
    EXPECT_GE(took, limit);
    EXPECT_GT(limit / took, 0.95) << members << " members: " << took << " s";
  }
}

// Members stay in step, so all wait for the one that is late; that costs no more than the pause.
TEST(ExchangeLinkLimitTest, APauseOfOneLineCostsLittleMoreThanItself) {
  const double rate = 100 * kMegabit / 100;
  const std::vector<MemberRates> rates(8, {rate, rate});
  const double even = Lines(rates, std::chrono::milliseconds(30), Hundredth()).Round(Zeros());
  for (const double at : {0.1, 0.4, 0.7}) {
    Lines lines(rates, std::chrono::milliseconds(30), Hundredth());
    lines.Pause(3, Seconds(at * even), Seconds(0.1 * even));
    EXPECT_LT(lines.Round(Zeros()), 1.12 * even) << "at " << at;
  }
}

TEST(ExchangeLinkLimitTest, UnevenLinesTakeWhatTheModelOfSharesSays) {
  const std::vector<MemberRates> rates{{1.5 * kMegabit, 6 * kMegabit},
                                       {3 * kMegabit, 3 * kMegabit},
                                       {2 * kMegabit, 1 * kMegabit},
                                       {5 * kMegabit, 2 * kMegabit}};
  ExchangeConfig config = Hundredth();
  const double even = Lines(rates, std::chrono::milliseconds(30), config).Round(Zeros());
  config.shares = BalanceShares(rates).value();
  const double model = 4 * kValues * ExchangeTime(rates, config.shares);
  const double balanced = Lines(rates, std::chrono::milliseconds(30), config).Round(Zeros());
  EXPECT_LT(balanced, 0.9 * even);
  EXPECT_GT(model / balanced, 0.9) << balanced << " s instead of " << model;
  EXPECT_LE(model / balanced, 1.01);
}

}  // namespace
}  // namespace shoal::collective
