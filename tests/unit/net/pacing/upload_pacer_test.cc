#include "net/pacing/upload_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "net/pacing/queue_delay.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStep = milliseconds(1);
constexpr int kStepsPerUpdate = 25;

// A line with a queue, as a fluid: what is sent beyond its rate waits, what finds the queue full is
// lost. The sender sends as fast as the pace allows, or at ten times the line's rate. At every
// update a ping is answered that saw this queue, by a clock that may drift.
class Line {
 public:
  Line(double mbit, Duration round_trip, unsigned seed = 1)
      : bytes_per_ms_(mbit * 125), round_trip_(round_trip), random_(seed) {
    OneWayQueue(0);  // the ping of a link that opens
  }

  void set_router_ms(double ms) { router_ms_ = ms; }
  void set_drift_ppm(double ppm) { drift_ppm_ = ppm; }
  // What the router lets through at once after a pause.
  void set_bucket(double bytes) { bucket_ = tokens_ = bytes; }
  // What every packet waits besides: for processors.
  void set_busy_ms(double ms) { busy_ms_ = ms; }
  // The other end's processors stand still for so long now and then: what it has received is
  // acknowledged when they go on.
  void set_stalls(Duration every, Duration length) {
    stall_every_ = every;
    stall_length_ = length;
  }

  // Runs for `duration`; `offered`: what there is to send, as part of the line's rate.
  void Run(Duration duration, double offered = 10, double others = 0, double noise_ms = 0) {
    for (Duration t{}; t < duration; t += kStep) Step(offered, others, noise_ms, 0);
  }
  // `back_ms`: what acknowledgements wait in the queue of the other direction.
  void Step(double offered, double others, double noise_ms, double back_ms) {
    const double wanted = offered * bytes_per_ms_;
    const double sent = now_pace_ > 0 ? std::min(wanted, now_pace_) : wanted;
    limited_ = limited_ || (now_pace_ > 0 && wanted > now_pace_);
    sent_ += sent;
    Serve(sent, others * bytes_per_ms_);
    now_ += kStep;
    if (++steps_ % kStepsPerUpdate == 0) Look(noise_ms, back_ms);
  }
  // Until `bytes` are sent, as fast as the pace lets them; how many ms that took.
  int RunBurst(double bytes) {
    int ms = 0;
    for (const double end = sent_ + bytes; sent_ < end; ++ms) {
      Step(std::min(10.0, (end - sent_) / bytes_per_ms_), 0, 0, 0);
    }
    return ms;
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
  // Of the next `duration`, as Run.
  Means MeansOf(Duration duration, double offered = 10, double others = 0, double noise_ms = 0) {
    TakeMeans();
    Run(duration, offered, others, noise_ms);
    return TakeMeans();
  }
  void SetRate(double mbit) { bytes_per_ms_ = mbit * 125; }
  double pace_mbit() const { return static_cast<double>(pacer_.pace().value) / 1e6; }
  double line_mbit() const { return static_cast<double>(pacer_.line().value) / 1e6; }

 private:
  struct Flying {
    TimePoint at;  // when the sender knows
    double bytes, queue_ms;
  };

  void Serve(double ours, double others) {
    const double room = router_ms_ * bytes_per_ms_ - queue_;
    const double in = std::min(room, ours + others);
    queue_ += in;
    ours_ += ours + others > 0 ? in * ours / (ours + others) : 0;
    const double out = std::min(queue_, bytes_per_ms_ + tokens_);
    tokens_ = std::clamp(tokens_ + bytes_per_ms_ - out, 0.0, bucket_);
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

  void Look(double noise_ms, double back_ms) {
    PaceSample sample;
    double bytes = 0;
    double queue_ms = 0;
    if (stall_every_ > Duration::zero() && now_ > stalled_until_ + stall_every_) {
      std::uniform_real_distribution<> part(0.2, 1);
      stalled_until_ =
          now_ + Milliseconds(part(random_) * 1e-6 * static_cast<double>(stall_length_.count()));
    }
    const bool stalled = now_ < stalled_until_;
    while (!stalled && !flying_.empty() && flying_.front().at <= now_) {
      bytes += flying_.front().bytes;
      queue_ms = flying_.front().queue_ms;
      flying_.pop_front();
    }
    sample.under_way = std::any_of(flying_.begin(), flying_.end(),
                                   [](const Flying& flying) { return flying.bytes > 0; });
    sample.delivered_bytes = sample.seen_bytes = static_cast<std::uint64_t>(bytes);
    // As PacingLoop has it: a connection is busy for some samples after bytes arrived.
    busy_samples_ = bytes > 3000 ? 4 : std::max(0, busy_samples_ - 1);
    std::uniform_real_distribution<> noise(0, noise_ms);
    if (bytes > 3000) {
      sample.one_way_queue = OneWayQueue(queue_ms + busy_ms_ + noise(random_));
      round_trip_queue_ = Milliseconds(queue_ms + busy_ms_ + back_ms + noise(random_));
    }
    if (bytes > 3000 || (stalled && busy_samples_ > 0)) {
      sample.queue = round_trip_queue_;
      sample.round_trip = round_trip_ + *sample.queue;
    }
    sample.limited = std::exchange(limited_, false);
    now_pace_ = static_cast<double>(pacer_.Update(now_, sample).value) / 8000;
  }

  static Duration Milliseconds(double ms) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
  }
  Duration OneWayQueue(double queue_ms) {
    const double age_s = std::chrono::duration<double>(now_ - kStart).count();
    const Duration there = now_.time_since_epoch() + Milliseconds(queue_ms) + kOtherOrigin +
                           Milliseconds(drift_ppm_ * 1e-3 * age_s);
    return queue_delay_.Add(now_, now_, static_cast<std::uint64_t>(there.count()));
  }

  static constexpr TimePoint kStart{seconds(1000)};
  static constexpr Duration kOtherOrigin = seconds(86'400);
  UploadPacer pacer_;
  QueueDelay queue_delay_;
  double router_ms_ = 200;
  double drift_ppm_ = 0;
  double busy_ms_ = 0;
  Duration stall_every_{}, stall_length_{};
  TimePoint stalled_until_ = kStart;
  int busy_samples_ = 0;
  Duration round_trip_queue_{};
  double bytes_per_ms_;
  const Duration round_trip_;
  std::mt19937 random_;
  TimePoint now_ = kStart;
  int steps_ = 0;
  bool limited_ = false;
  double now_pace_ = 0;  // bytes per ms
  double sent_ = 0, queue_ = 0, ours_ = 0;
  double bucket_ = 0, tokens_ = 0;
  std::deque<Flying> flying_;
  double served_ = 0, queue_sum_ = 0, queue_most_ = 0, counted_ = 0;
};

TEST(UploadPacer, FillsTheLineAndNotItsQueue) {
  for (const double mbit : {5.0, 50.0, 100.0, 500.0}) {
    for (const int rtt : {0, 40, 100}) {
      for (const double noise_ms : {0.0, 4.0}) {
        Line line(mbit, milliseconds(rtt + 1));
        line.Run(seconds(6), 10, 0, noise_ms);
        const auto means = line.MeansOf(seconds(55), 10, 0, noise_ms);
        SCOPED_TRACE(testing::Message() << mbit << " Mbit/s, " << rtt << " ms, noise " << noise_ms);
        EXPECT_GT(means.used, 0.96);
        EXPECT_LT(means.queue_ms, mbit < 10 ? 25 : 10);
        EXPECT_LT(means.queue_most_ms, mbit < 10 ? 60 : 40);
      }
    }
  }
}

TEST(UploadPacer, FillsALineWithAShortQueue) {
  for (const double mbit : {50.0, 500.0}) {
    Line line(mbit, milliseconds(41));
    line.set_router_ms(20);
    line.Run(seconds(6), 10, 0, 2);
    const auto means = line.MeansOf(seconds(55), 10, 0, 2);
    EXPECT_GT(means.used, 0.96) << mbit;
    EXPECT_LT(means.queue_ms, 10) << mbit;
    EXPECT_LT(means.queue_most_ms, 19) << mbit;  // nothing is lost
  }
}

TEST(UploadPacer, BothDirectionsAreFilled) {
  for (const int rtt : {0, 40, 100}) {
    for (const double noise_ms : {0.0, 3.0}) {
      for (const int late_s : {0, 3}) {
        SCOPED_TRACE(testing::Message() << rtt << " ms, noise " << noise_ms << ", late " << late_s);
        Line a(50, milliseconds(rtt + 1), 1), b(50, milliseconds(rtt + 1), 2);
        a.set_drift_ppm(20);  // what one clock gains the other loses
        b.set_drift_ppm(-20);
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
          EXPECT_GT(means.used, 0.97);
          EXPECT_LT(means.queue_ms, 10);
          EXPECT_LT(means.queue_most_ms, 40);
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
  auto means = line.MeansOf(seconds(10));
  EXPECT_GT(means.used, 0.95);
  EXPECT_LT(means.queue_ms, 12);
  line.SetRate(100);
  line.Run(seconds(12));
  means = line.MeansOf(seconds(10));
  EXPECT_GT(means.used, 0.95);
}

TEST(UploadPacer, MakesRoomForOthersAndComesBack) {
  Line line(50, milliseconds(21));
  line.Run(seconds(5));
  line.Run(seconds(4), 10, 0.5);  // half of the line for a call or an upload of the household
  auto means = line.MeansOf(seconds(10), 10, 0.5);
  EXPECT_GT(means.used, 0.40);
  EXPECT_LT(means.queue_ms, 20);
  line.Run(seconds(8));
  means = line.MeansOf(seconds(5));
  EXPECT_GT(means.used, 0.95);
}

TEST(UploadPacer, BusyProcessorsDuringTheSlowStartDoNotHoldAFastLineDown) {
  for (const int rtt : {1, 41, 101}) {
    SCOPED_TRACE(rtt);
    Line line(500, milliseconds(rtt));
    line.set_busy_ms(6);
    double offered = 0.003;
    for (int i = 0; i < 12; ++i, offered *= 2) line.Run(milliseconds(100), offered);
    line.set_busy_ms(0);
    line.Run(seconds(5));
    const auto means = line.MeansOf(seconds(10));
    EXPECT_GT(means.used, 0.93);
    EXPECT_LT(means.queue_ms, 12);
  }
}

TEST(UploadPacer, APaceFarTooLowIsMadeUpForInSeconds) {
  for (const int rtt : {1, 41, 101}) {
    SCOPED_TRACE(rtt);
    Line line(10, milliseconds(rtt));
    line.Run(seconds(5));
    line.SetRate(500);
    line.Run(seconds(8));
    const auto means = line.MeansOf(seconds(10));
    EXPECT_GT(means.used, 0.93);
    EXPECT_LT(means.queue_most_ms, 70);
  }
}

TEST(UploadPacer, APauseOfTheProcessorsIsMadeUpForInSeconds) {
  // Packets wait a little for processors all the time, which looks like half a target of queue.
  for (const int rtt : {1, 41, 101}) {
    for (const double mbit : {50.0, 100.0, 500.0}) {
      SCOPED_TRACE(testing::Message() << rtt << " ms, " << mbit << " Mbit/s");
      Line line(mbit, milliseconds(rtt));
      line.Run(seconds(5));
      for (int i = 0; i < 3; ++i) {
        line.set_busy_ms(400);
        line.Run(milliseconds(1200));
        EXPECT_LT(line.pace_mbit(), 0.7 * mbit);
        line.set_busy_ms(1.8);
        line.Run(seconds(4));
        const auto means = line.MeansOf(seconds(3));
        EXPECT_GT(means.used, 0.93);
        EXPECT_LT(means.queue_ms, 10);
      }
    }
  }
}

TEST(UploadPacer, ALineThatBecameSlowerIsNotTriedForLong) {
  for (const int rtt : {1, 41, 101}) {
    SCOPED_TRACE(rtt);
    Line line(200, milliseconds(rtt));
    line.Run(seconds(5));
    line.SetRate(20);
    line.Run(seconds(8));
    const auto means = line.MeansOf(seconds(10));
    EXPECT_GT(means.used, 0.95);
    EXPECT_LT(means.queue_ms, 15);
    EXPECT_LT(means.queue_most_ms, 40);
  }
}

TEST(UploadPacer, TheLowestPaceIsNotForEver) {
  for (const int rtt : {1, 41, 101}) {
    for (const double mbit : {5.0, 50.0, 500.0}) {
      SCOPED_TRACE(testing::Message() << rtt << " ms, " << mbit << " Mbit/s");
      Line line(mbit, milliseconds(rtt));
      line.Run(seconds(5));
      line.set_busy_ms(100);  // for processors, but it looks like a queue that never empties
      line.Run(seconds(120));
      EXPECT_LT(line.pace_mbit(), 5);
      line.set_busy_ms(0);
      line.Run(seconds(9));
      EXPECT_GT(line.MeansOf(seconds(10)).used, 0.9);
    }
  }
}

TEST(UploadPacer, PausesKeepThePace) {
  Line line(50, milliseconds(41));
  line.Run(seconds(5));
  const double before = line.pace_mbit();
  line.Run(seconds(60), 0);
  EXPECT_EQ(line.pace_mbit(), before);
  const auto means = line.MeansOf(seconds(2));
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

// Bursts that a router's bucket swallows find the queue empty at any pace.
TEST(UploadPacer, ShortBurstsDoNotRaiseWhatTheLineTakes) {
  for (const int rtt : {1, 41, 101}) {
    for (const int burst_bytes : {12'000, 50'000, 120'000}) {
      SCOPED_TRACE(testing::Message() << rtt << " ms, bursts of " << burst_bytes);
      Line line(20, milliseconds(rtt));
      line.Run(seconds(8));
      ASSERT_NEAR(line.line_mbit(), 20, 1);
      line.set_bucket(120'000);
      for (int i = 0; i < 400; ++i) {
        line.RunBurst(burst_bytes);
        line.Run(milliseconds(280), 0);
      }
      EXPECT_NEAR(line.line_mbit(), 20, 1);
      EXPECT_LT(line.pace_mbit(), 41);
    }
  }
}

// The bucket's bytes are no rate, also where the burst goes on after them.
TEST(UploadPacer, BurstsLongerThanTheBucketDoNotRaiseWhatTheLineTakes) {
  for (const double bucket : {32'000, 64'000}) {
    for (const int burst_bytes : {150'000, 220'000, 300'000, 400'000}) {
      SCOPED_TRACE(testing::Message() << "bursts of " << burst_bytes << " into " << bucket);
      Line line(20, milliseconds(11));
      line.Run(seconds(8));
      line.set_bucket(bucket);
      for (int i = 0; i < 200; ++i) {
        line.RunBurst(burst_bytes);
        line.Run(milliseconds(280), 0);
      }
      EXPECT_NEAR(line.line_mbit(), 20, 1);
      EXPECT_LT(line.pace_mbit(), 50);
    }
  }
}

// What is acknowledged late comes in less time than the line took for it.
TEST(UploadPacer, LateAcknowledgementsDoNotRaiseWhatTheLineTakes) {
  for (const int rtt : {1, 11, 41}) {
    for (const int stall_ms : {40, 80, 150, 250}) {
      for (const int pause_ms : {0, 300}) {
        for (unsigned seed = 1; seed <= 8; ++seed) {
          SCOPED_TRACE(testing::Message() << rtt << " ms, stalls of " << stall_ms << ", pauses of "
                                          << pause_ms << ", seed " << seed);
          Line line(20, milliseconds(rtt), seed);
          line.set_bucket(32'000);
          line.set_stalls(milliseconds(170 + 60 * seed), milliseconds(stall_ms));
          double most = 0;
          for (int i = 0; i < 60; ++i) {
            line.Run(milliseconds(600), 10, 0, 2);
            line.Run(milliseconds(pause_ms), 0);
            most = std::max(most, line.line_mbit());
          }
          EXPECT_LT(most, 1.1 * 20);
        }
      }
    }
  }
}

TEST(UploadPacer, ShortBurstsAreNotHeldDownForEver) {
  // What looked like a full line were processors, for so long that nothing else was known.
  for (const int rtt : {1, 41, 101}) {
    SCOPED_TRACE(rtt);
    Line line(100, milliseconds(rtt));
    line.Run(seconds(5));
    line.set_busy_ms(100);
    line.Run(seconds(120));
    ASSERT_LT(line.pace_mbit(), 5);
    line.set_busy_ms(0);
    int burst_ms = 0;
    for (int i = 0; i < 400; ++i) {
      burst_ms = line.RunBurst(50'000);
      line.Run(milliseconds(150), 0);  // the others' turn
    }
    EXPECT_LT(burst_ms, 40);
  }
}

TEST(UploadPacer, TheOtherEndsFullQueueDoesNotHoldUsDown) {
  // Acknowledgements wait in the queue of the other end's line, which goes up and down.
  for (const int rtt : {1, 41, 101}) {
    for (const double back_ms : {8.0, 25.0, 50.0, 200.0}) {
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
      const auto means = line.TakeMeans();
      EXPECT_GT(means.used, 0.96);
      EXPECT_LT(means.queue_ms, 10);
    }
  }
}

TEST(UploadPacer, ADriftingClockCostsLittle) {
  // The other end's queue is full all the time, so that the round trip does not help.
  for (const double ppm : {-100.0, 100.0}) {
    SCOPED_TRACE(ppm);
    Line line(100, milliseconds(41));
    line.set_drift_ppm(ppm);
    line.Run(seconds(5));
    double most_ms = 0;
    line.TakeMeans();
    double used = 0;
    for (int s = 0; s < 300; ++s) {
      for (int ms = 0; ms < 1000; ++ms) line.Step(10, 0, 2, 100);
      const auto means = line.TakeMeans();
      used += means.used / 300;
      most_ms = std::max(most_ms, means.queue_ms);
    }
    EXPECT_GT(used, 0.95);
    EXPECT_LT(most_ms, 20);
  }
}

TEST(UploadPacer, WithoutPingsTheRoundTripCounts) {
  UploadPacer one_way, both;
  const auto sample = [](std::optional<Duration> there) {
    return PaceSample{milliseconds(60), milliseconds(100), there, 300'000, true};
  };
  for (TimePoint now{seconds(1)}; now < TimePoint{seconds(9)}; now += milliseconds(25)) {
    both.Update(now, sample(std::nullopt));
    one_way.Update(now, sample(milliseconds(1)));
  }
  EXPECT_GT(both.pace().value, 0u);  // a full queue
  EXPECT_EQ(one_way.pace().value, 0u);
}

// Of all that came, each grown by its age, the slow way.
TEST(QueueDelay, IsWhatIsAboveTheLeast) {
  std::mt19937_64 random(3);
  for (const bool behind : {false, true}) {
    QueueDelay queue_delay;
    std::deque<std::pair<Duration, Duration>> all;  // when, delay
    const Duration origin = behind ? -seconds(500) : Duration(seconds(1 << 20));
    Duration at = seconds(1000);
    for (int i = 0; i < 3'000; ++i) {
      at += milliseconds(random() % 500);
      const Duration delay = milliseconds(30 + random() % 40) + at / 20'000;  // 50 ppm
      all.emplace_back(at, delay);
      const Duration queue = queue_delay.Add(
          TimePoint(at), TimePoint(at), static_cast<std::uint64_t>((at + delay + origin).count()));
      Duration least = delay;
      for (const auto& [then, other] : all) least = std::min(least, other + (at - then) / 10'000);
      ASSERT_NEAR(static_cast<double>(queue.count()), static_cast<double>((delay - least).count()),
                  10);
    }
  }
}

TEST(QueueDelay, TakesAnyNumber) {
  QueueDelay queue_delay;
  TimePoint now{seconds(5)};
  for (const std::uint64_t arrived :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 62,
        std::uint64_t{7}, (std::uint64_t{1} << 63) - 1}) {
    now += seconds(11);
    EXPECT_GE(queue_delay.Add(now, now, arrived), Duration::zero());
    EXPECT_GE(queue_delay.Add(now, TimePoint::min(), arrived), Duration::zero());
    EXPECT_EQ(queue_delay.Add(now, TimePoint::max(), 0), Duration::zero());  // the least there is
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
