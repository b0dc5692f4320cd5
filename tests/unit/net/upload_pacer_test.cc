#include "net/upload_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStep = milliseconds(1);
constexpr int kStepsPerUpdate = 25;

// A line with a queue of 200 ms, as a fluid: what is sent beyond its rate waits, what finds the
// queue full is lost. The sender sends as fast as the pace allows, or at ten times the line's rate.
class Line {
 public:
  Line(double mbit, Duration round_trip, unsigned seed = 1)
      : bytes_per_ms_(mbit * 125), round_trip_(round_trip), random_(seed) {}

  // Runs for `duration`; `offered`: what there is to send, as part of the line's rate.
  void Run(Duration duration, double offered = 10, double others = 0, double noise_ms = 0) {
    for (Duration t{}; t < duration; t += kStep) Step(offered, others, noise_ms, 0);
  }
  // `back_ms`: what acknowledgements wait in the queue of the other direction.
  void Step(double offered, double others, double noise_ms, double back_ms) {
    const double wanted = offered * bytes_per_ms_;
    const double sent = now_pace_ > 0 ? std::min(wanted, now_pace_) : wanted;
    limited_ = limited_ || (now_pace_ > 0 && wanted > now_pace_);
    Serve(sent, others * bytes_per_ms_);
    now_ += kStep;
    if (++steps_ % kStepsPerUpdate == 0) Look(offered > 0, noise_ms, back_ms);
  }
  double queue_ms() const { return queue_ / bytes_per_ms_; }

  // Means since the last call.
  struct Means {
    double used, queue_ms, queue_most_ms;
  };
  Means TakeMeans() {
    const Means means{served_ / (bytes_per_ms_ * counted_), queue_sum_ / counted_, queue_most_};
    served_ = queue_sum_ = queue_most_ = counted_ = 0;
    return means;
  }
  void SetRate(double mbit) { bytes_per_ms_ = mbit * 125; }
  double pace_mbit() const { return static_cast<double>(pacer_.pace().value) / 1e6; }

 private:
  struct Flying {
    TimePoint at;  // when the sender knows
    double bytes, queue_ms;
  };

  void Serve(double ours, double others) {
    const double room = 200 * bytes_per_ms_ - queue_;
    const double in = std::min(room, ours + others);
    queue_ += in;
    ours_ += ours + others > 0 ? in * ours / (ours + others) : 0;
    const double out = std::min(queue_, bytes_per_ms_);
    // Ours leave in proportion to what of the queue is ours.
    const double ours_out = queue_ > 0 ? out * ours_ / queue_ : 0;
    queue_ -= out;
    ours_ -= ours_out;
    const double queue_ms = queue_ / bytes_per_ms_;
    flying_.push_back({now_ + round_trip_, ours_out, queue_ms});
    served_ += ours_out;
    queue_sum_ += queue_ms;
    queue_most_ = std::max(queue_most_, queue_ms);
    ++counted_;
  }

  void Look(bool busy, double noise_ms, double back_ms) {
    PaceSample sample;
    double bytes = 0;
    double queue_ms = 0;
    while (!flying_.empty() && flying_.front().at <= now_) {
      bytes += flying_.front().bytes;
      queue_ms = flying_.front().queue_ms;
      flying_.pop_front();
    }
    sample.delivered_bytes = static_cast<std::uint64_t>(bytes);
    if (busy && bytes > 3000) {
      queue_ms += back_ms + noise_ms * std::uniform_real_distribution<>(0, 1)(random_);
      sample.queue =
          std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(queue_ms));
      sample.round_trip = round_trip_ + *sample.queue;
    }
    sample.limited = std::exchange(limited_, false);
    now_pace_ = static_cast<double>(pacer_.Update(now_, sample).value) / 8000;
  }

  UploadPacer pacer_;
  double bytes_per_ms_;
  const Duration round_trip_;
  std::mt19937 random_;
  TimePoint now_{seconds(1000)};
  int steps_ = 0;
  bool limited_ = false;
  double now_pace_ = 0;  // bytes per ms
  double queue_ = 0, ours_ = 0;
  std::deque<Flying> flying_;
  double served_ = 0, queue_sum_ = 0, queue_most_ = 0, counted_ = 0;
};

TEST(UploadPacer, FillsTheLineAndNotItsQueue) {
  for (const double mbit : {5.0, 50.0, 100.0, 500.0}) {
    for (const int rtt : {0, 40, 100}) {
      for (const double noise_ms : {0.0, 4.0}) {
        Line line(mbit, milliseconds(rtt + 1));
        line.Run(seconds(6), 10, 0, noise_ms);
        line.TakeMeans();
        line.Run(seconds(55), 10, 0, noise_ms);
        const auto means = line.TakeMeans();
        SCOPED_TRACE(testing::Message() << mbit << " Mbit/s, " << rtt << " ms, noise " << noise_ms);
        EXPECT_GT(means.used, 0.96);
        EXPECT_LT(means.queue_ms, mbit < 10 ? 25 : 10);
        EXPECT_LT(means.queue_most_ms, mbit < 10 ? 60 : 40);
      }
    }
  }
}

TEST(UploadPacer, BothDirectionsAreFilled) {
  for (const int rtt : {0, 40, 100}) {
    for (const double noise_ms : {0.0, 3.0}) {
      for (const int late_s : {0, 3}) {
        SCOPED_TRACE(testing::Message() << rtt << " ms, noise " << noise_ms << ", late " << late_s);
        Line a(50, milliseconds(rtt + 1), 1), b(50, milliseconds(rtt + 1), 2);
        const auto run = [&](int length_s, double back_offered) {
          for (int ms = 0; ms < 1000 * length_s; ++ms) {
            const double of_a = a.queue_ms();
            a.Step(10, 0, noise_ms, b.queue_ms());
            b.Step(back_offered, 0, noise_ms, of_a);
          }
        };
        run(late_s, 0);
        run(1, 0.6);  // the slow start of a connection
        run(20, 10);
        a.TakeMeans();
        b.TakeMeans();
        run(60, 10);
        for (const auto& means : {a.TakeMeans(), b.TakeMeans()}) {
          EXPECT_GT(means.used, 0.94);
          EXPECT_LT(means.queue_ms, 10);
        }
      }
    }
  }
}

TEST(UploadPacer, NoPaceWhileTheLineIsNotFull) {
  Line line(100, milliseconds(41));
  line.Run(seconds(20), 0.9);
  EXPECT_EQ(line.pace_mbit(), 0);
}

TEST(UploadPacer, FollowsTheLine) {
  Line line(100, milliseconds(41));
  line.Run(seconds(5));
  EXPECT_NEAR(line.pace_mbit(), 100, 5);
  line.SetRate(30);
  line.Run(seconds(5));
  line.TakeMeans();
  line.Run(seconds(10));
  auto means = line.TakeMeans();
  EXPECT_GT(means.used, 0.95);
  EXPECT_LT(means.queue_ms, 12);
  line.SetRate(100);
  line.Run(seconds(12));
  line.TakeMeans();
  line.Run(seconds(10));
  means = line.TakeMeans();
  EXPECT_GT(means.used, 0.95);
}

TEST(UploadPacer, MakesRoomForOthersAndComesBack) {
  Line line(50, milliseconds(21));
  line.Run(seconds(5));
  line.Run(seconds(4), 10, 0.5);  // half of the line for a call or an upload of the household
  line.TakeMeans();
  line.Run(seconds(10), 10, 0.5);
  auto means = line.TakeMeans();
  EXPECT_GT(means.used, 0.40);
  EXPECT_LT(means.queue_ms, 20);
  line.Run(seconds(8));
  line.TakeMeans();
  line.Run(seconds(5));
  means = line.TakeMeans();
  EXPECT_GT(means.used, 0.95);
}

TEST(UploadPacer, PausesKeepThePace) {
  Line line(50, milliseconds(41));
  line.Run(seconds(5));
  const double before = line.pace_mbit();
  line.Run(seconds(60), 0);
  EXPECT_EQ(line.pace_mbit(), before);
  line.TakeMeans();
  line.Run(seconds(2));
  const auto means = line.TakeMeans();
  EXPECT_GT(means.used, 0.9);
  EXPECT_LT(means.queue_most_ms, 40);
}

TEST(UploadPacer, BurstsFindOutThatTheLineIsFaster) {
  Line line(30, milliseconds(41));
  line.Run(seconds(5));
  EXPECT_NEAR(line.pace_mbit(), 30, 3);
  line.SetRate(100);
  for (int i = 0; i < 100; ++i) {  // never busy for long enough to be measured
    line.Run(milliseconds(100));
    line.Run(milliseconds(100), 0);
  }
  EXPECT_GT(line.pace_mbit(), 80);
}

TEST(UploadPacer, TheOtherEndsFullQueueDoesNotHoldUsDown) {
  // Acknowledgements wait in the queue of the other end's line, which goes up and down.
  for (const int rtt : {1, 41, 101}) {
    for (const double back_ms : {8.0, 25.0, 40.0, 50.0}) {
      SCOPED_TRACE(testing::Message() << rtt << " ms, back " << back_ms);
      Line line(100, milliseconds(rtt));
      line.Run(seconds(5));
      std::mt19937 random(7);
      std::uniform_real_distribution<> wave(0, 8);
      double back = back_ms;
      for (int ms = 0; ms < 40'000; ++ms) {
        if (ms % 60 == 0) back = back_ms + wave(random);
        if (ms == 10'000) line.TakeMeans();
        line.Step(10, 0, 3, back);
      }
      EXPECT_GT(line.TakeMeans().used, 0.85);
    }
  }
}

TEST(UploadPacer, NoPaceForVeryFastLines) {
  Line line(2000, milliseconds(2));
  line.Run(seconds(5));
  EXPECT_EQ(line.pace_mbit(), 0);
}

TEST(UploadPacer, EmptiesTheQueueNowAndThen) {
  // With a steady queue the shortest round trip would be forgotten.
  Line line(50, milliseconds(41));
  line.Run(seconds(70), 10, 0, 0);
  bool emptied = false;
  for (int i = 0; i < 650 && !emptied; ++i) {
    line.TakeMeans();
    line.Run(milliseconds(100));
    emptied = line.TakeMeans().queue_ms < 0.5;
  }
  EXPECT_TRUE(emptied);
}

}  // namespace
}  // namespace shoal::net
