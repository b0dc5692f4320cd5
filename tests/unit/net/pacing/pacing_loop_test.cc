#include "net/pacing/pacing_loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "tests/support/sim_executor.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kLineBytesPerMs = 7500;  // 60 Mbit/s
constexpr milliseconds kFar{20};

PathSample Busy(milliseconds queue, milliseconds round_trip_least) {
  return {queue, round_trip_least + queue, std::nullopt, round_trip_least};
}
PathSample Pinged(milliseconds one_way_queue, milliseconds round_trip_least) {
  return {std::nullopt, {}, one_way_queue, round_trip_least};
}

TEST(JoinPaths, TheLeastOfAllWaysCounts) {
  PaceSample sample;
  JoinPaths(std::vector{Busy(milliseconds(9), kFar), Busy(milliseconds(4), 2 * kFar),
                        Pinged(milliseconds(7), kFar), Pinged(milliseconds(2), kFar)},
            &sample);
  EXPECT_EQ(sample.queue, milliseconds(4));
  EXPECT_EQ(sample.round_trip, milliseconds(44));
  EXPECT_EQ(sample.one_way_queue, milliseconds(2));
}

TEST(JoinPaths, NobodyIsBusy) {
  PaceSample sample;
  JoinPaths(std::vector{Pinged(milliseconds(3), kFar)}, &sample);
  EXPECT_EQ(sample.queue, std::nullopt);
  EXPECT_EQ(sample.one_way_queue, milliseconds(3));
}

// What goes to another machine of the house waits for no line out of it.
TEST(JoinPaths, AWayWithinTheHouseSaysNothingOfTheLine) {
  PaceSample sample;
  JoinPaths(std::vector{Busy(milliseconds(30), kFar), Busy(milliseconds(0), milliseconds(1)),
                        Pinged(milliseconds(0), milliseconds(1))},
            &sample);
  EXPECT_EQ(sample.queue, milliseconds(30));
  EXPECT_EQ(sample.one_way_queue, std::nullopt);
}

TEST(JoinPaths, ShortWaysCountWhereAllAreShort) {
  PaceSample sample;
  JoinPaths(
      std::vector{Busy(milliseconds(30), milliseconds(2)), Pinged(milliseconds(5), milliseconds(1)),
                  Pinged(milliseconds(6), milliseconds(0))},  // not measured yet
      &sample);
  EXPECT_EQ(sample.queue, milliseconds(30));
  EXPECT_EQ(sample.one_way_queue, milliseconds(5));
  // And not too short to leave the house, however long others are.
  JoinPaths(std::vector{Busy(milliseconds(30), milliseconds(150)),
                        Pinged(milliseconds(1), milliseconds(4))},
            &sample);
  EXPECT_EQ(sample.one_way_queue, milliseconds(1));
}

// One link that sends all the line takes, and another one that is idle.
class PacingLoopTest : public testing::Test {
 protected:
  PacingLoopTest()
      : executor_(world_.NewExecutor("control")),
        upload_(std::make_shared<RateLimiter>(&world_)),
        loop_(std::make_shared<PacingLoop>(
            executor_.get(), upload_, true, [this](bool probe) { return Pulses(probe); },
            [this](const TcpSocket&) { return std::optional<TcpFigures>(figures_); })) {
    figures_.min_rtt_ms = 20;
  }

  std::vector<LinkPulse> Pulses(bool probe) {
    probes_ += probe ? 1 : 0;
    const auto bytes = static_cast<std::uint64_t>(part_of_line_ * kLineBytesPerMs * 25);
    figures_.delivered_bytes += bytes;
    figures_.unacked_segments = 50;
    figures_.rtt_ms = figures_.min_rtt_ms + queue_ms_;
    sent_ += bytes;
    upload_->Take(bytes);
    LinkPulse busy{{{3, 1}}, sent_, limited_, std::nullopt, kFar};
    LinkPulse idle{{}, 0, false, std::nullopt, kFar};
    if (probe && idle_answers_) idle.queue = milliseconds(own_queue_ms_);
    return {busy, idle};
  }

  void Run(Duration length, double part_of_line, int queue_ms, bool limited) {
    part_of_line_ = part_of_line;
    queue_ms_ = queue_ms;
    limited_ = limited;
    loop_->Start();
    world_.RunUntil([] { return false; }, length);
  }
  // A pace just above what the line takes, found as usual.
  void FindPace() {
    own_queue_ms_ = 6;
    Run(seconds(2), 1, 6, true);
    own_queue_ms_ = 4;
    Run(seconds(2), 1, 4, true);
    own_queue_ms_ = 0;
    ASSERT_GT(Pace(), 0.9);
    ASSERT_LT(Pace(), 1.1);
    probes_ = 0;
  }
  double Pace() const { return upload_->pace().bytes_per_second() / (1e3 * kLineBytesPerMs); }

  test_support::SimWorld world_;
  const std::unique_ptr<Executor> executor_;
  const std::shared_ptr<RateLimiter> upload_;
  TcpFigures figures_;
  std::uint64_t sent_ = 0;
  double part_of_line_ = 0;
  int queue_ms_ = 0, own_queue_ms_ = 0, probes_ = 0;
  bool limited_ = false, idle_answers_ = true;
  const std::shared_ptr<PacingLoop> loop_;
};

// Several senders fill one receiver's line. For the only link with something to send that looks
// like a line of its own that takes little; a link that sends nothing knows better.
TEST_F(PacingLoopTest, AnotherHousesFullLineDoesNotHoldUsDown) {
  FindPace();
  const double before = Pace();
  Run(seconds(1), 0.2, 60, false);
  EXPECT_GT(probes_, 0);
  EXPECT_GE(Pace(), 0.95 * before);
}

TEST_F(PacingLoopTest, WithoutAnyOtherWayTheQueueIsOurs) {
  FindPace();
  idle_answers_ = false;
  Run(seconds(1), 0.2, 60, false);
  EXPECT_LT(Pace(), 0.6);
}

TEST_F(PacingLoopTest, AQueueThatAllWaysHaveIsOurs) {
  FindPace();
  own_queue_ms_ = 55;
  Run(seconds(1), 0.2, 60, true);
  EXPECT_LT(Pace(), 0.6);
}

TEST_F(PacingLoopTest, NobodyIsAskedWhileNothingWaits) {
  Run(seconds(2), 0.1, 0, false);
  EXPECT_EQ(probes_, 0);
}

}  // namespace
}  // namespace shoal::net
