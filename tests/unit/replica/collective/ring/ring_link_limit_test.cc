// Rings and tori over lines of limited rates, in virtual time: how near they come to what the lines
// allow. The vector is a hundredth of 100 M values, the lines a hundredth of 100 Mbit/s.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "replica/collective/one_bit.h"
#include "replica/collective/ring/ring_reduce.h"
#include "tests/support/sim_executor.h"

namespace shoal::collective {
namespace {

using test_support::SimWorld;

constexpr std::size_t kValues = 1'000'000;
constexpr double kRate = 1e6 / 8;          // bytes per second of a line, each way
constexpr std::size_t kChunkBytes = 2048;  // headers, which do not shrink, take 2 % of it
constexpr auto kLatency = std::chrono::milliseconds(30);

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Members behind one line each, which carries one message after the other, each way.
class Lines {
 public:
  Lines(std::size_t members, std::size_t columns) : control_(world_.NewExecutor("control")) {
    for (std::size_t r = 0; r < members; ++r) {
      ends_.push_back(std::make_unique<End>(this, r));
      compute_.push_back(world_.NewExecutor("compute", [](const char*) { return Seconds(1e-4); }));
    }
    for (std::size_t r = 0; r < members; ++r) {
      rings_.push_back(NewRingReduce(ends_[r].get(), control_.get(), compute_[r].get(),
                                     {.columns = columns, .chunk_bytes = kChunkBytes}));
    }
  }

  // Seconds of a round in which everybody counts, on a vector of `bytes` zeros.
  double Round(std::size_t bytes, const std::shared_ptr<const RingMerge>& merge) {
    const std::vector<std::byte> zeros(bytes);
    const TimePoint begin = world_.Now();
    TimePoint end = begin;
    std::size_t done = 0;
    control_->Post("start", [&] {
      for (const auto& ring : rings_) {
        ring->Start({.round = 1,
                     .contributors = (1ull << rings_.size()) - 1,
                     .label = "test",
                     .vector = Buffer::CopyOf(zeros),
                     .merge = merge},
                    [&](Result<Buffer> result) {
                      EXPECT_TRUE(result.ok()) << result.status().ToString();
                      end = world_.Now();
                      ++done;
                    });
      }
    });
    while (world_.Step()) {
    }
    EXPECT_EQ(done, rings_.size());
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  struct End final : GroupChannel {
    End(Lines* of, std::size_t rank) : lines(of), own_rank(rank) {}
    std::size_t size() const override { return lines->ends_.size(); }
    std::size_t rank() const override { return own_rank; }
    Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
      lines->Send(own_rank, to, tag, std::move(payload));
      return Status::Ok();
    }
    void SetReceiver(Receiver next) override { receiver = std::move(next); }

    Lines* const lines;
    const std::size_t own_rank;
    Receiver receiver;
    TimePoint up_free{}, down_free{};
  };

  void Send(std::size_t from, std::size_t to, std::uint64_t tag, Buffer payload) {
    const Duration takes = Seconds(static_cast<double>(payload.size()) / kRate);
    TimePoint& up = ends_[from]->up_free;
    up = std::max(up, world_.Now()) + takes;
    auto held = std::make_shared<Buffer>(std::move(payload));
    // The receiving line carries the first byte while the sending one carries the next.
    world_.At(up + kLatency, [this, from, to, tag, takes, held] {
      TimePoint& down = ends_[to]->down_free;
      down = std::max(down + takes, world_.Now());
      world_.At(down, [this, from, to, tag, held] {
        control_->Post("deliver", [this, from, to, tag, held] {
          ends_[to]->receiver(from, tag, std::move(*held));
        });
      });
    });
  }

  SimWorld world_;
  std::unique_ptr<Executor> control_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Executor>> compute_;
  std::vector<std::unique_ptr<RingReduce>> rings_;
};

TEST(RingLinkLimitTest, ALargeVectorTakesLittleMoreThanItsBytes) {
  for (const auto& [members, columns] :
       std::vector<std::pair<std::size_t, std::size_t>>{{2, 0}, {4, 0}, {8, 0}, {4, 2}, {8, 4}}) {
    for (const bool one_bit : {false, true}) {
      const std::size_t bytes = one_bit ? SignWords(kValues) * 8 : kValues * 4;
      const auto merge = one_bit ? NewOneBitMerge(1, kValues, 0) : NewSumMerge();
      const double d = static_cast<double>(members);
      const double limit = 2 * (d - 1) / d * static_cast<double>(bytes) / kRate;
      const double took = Lines(members, columns).Round(bytes, merge);
      EXPECT_GE(took, limit);
      EXPECT_GT(limit / took, 0.93) << members << " members, " << columns << " columns, " << took;
    }
  }
}

}  // namespace
}  // namespace shoal::collective
