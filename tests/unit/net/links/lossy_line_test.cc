// The pace and the number of connections where a line drops packets: TCP with cubic's windows,
// losses and gaps, packet by packet, through a router with a short queue.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "net/pacing/stripe_demand.h"
#include "net/pacing/upload_pacer.h"

namespace shoal::net {
namespace {

using std::chrono::seconds;

constexpr double kPacketBytes = 1448;
constexpr int kMsPerUpdate = 25;
constexpr double kBeta = 0.7;  // what cubic leaves of a window after a loss

Duration Milliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// One connection. Packets arrive in order or not at all, so one that is acknowledged before an
// earlier one tells that the earlier one is lost. Without timeouts: something always arrives.
class Connection {
 public:
  struct Sent {
    std::int64_t order, sequence;
    double at_ms;
  };

  bool MaySend() const {
    if (recover_ > 0) return Allowed() > sent_in_recovery_;
    return static_cast<double>(flying_.size()) < window_;
  }
  Sent Send(double now_ms) {
    std::int64_t sequence = next_;
    if (lost_.empty()) {
      ++next_;
    } else {
      sequence = *lost_.begin();
      lost_.erase(lost_.begin());
    }
    ++sent_in_recovery_;
    flying_.push_back({++orders_, sequence, now_ms});
    return flying_.back();
  }
  void set_full(bool full) { full_ = full; }

  void OnAck(const Sent& sent, double now_ms) {
    while (!flying_.empty() && flying_.front().order < sent.order) {
      lost_.insert(flying_.front().sequence);
      flying_.pop_front();
    }
    flying_.pop_front();
    ++acked_in_recovery_;
    behind_gaps_.insert(sent.sequence);
    while (!behind_gaps_.empty() && *behind_gaps_.begin() == in_order_) {
      behind_gaps_.erase(behind_gaps_.begin());
      ++in_order_;
    }
    const double rtt_ms = now_ms - sent.at_ms;
    shortest_ms_ = std::min(shortest_ms_, rtt_ms);
    smoothed_ms_ = smoothed_ms_ == 0 ? rtt_ms : 0.875 * smoothed_ms_ + 0.125 * rtt_ms;
    if (sent.order > recover_) recover_ = 0;
    if (recover_ == 0 && !lost_.empty()) return Lose();
    if (recover_ == 0 && full_) Grow(rtt_ms, now_ms);
  }

  double queue_ms() const { return smoothed_ms_ - shortest_ms_; }
  double smoothed_ms() const { return smoothed_ms_; }
  std::size_t flying() const { return flying_.size(); }
  // As the kernel counts: in order only, or with what is behind gaps.
  std::int64_t in_order() const { return in_order_; }
  std::int64_t delivered() const {
    return in_order_ + static_cast<std::int64_t>(behind_gaps_.size());
  }

 private:
  // In proportion to what leaves the network, until what was under way at the loss is gone.
  std::int64_t Allowed() const {
    return std::llround(std::ceil(static_cast<double>(acked_in_recovery_) * kBeta));
  }
  void Lose() {
    most_ = window_ < most_ ? window_ * (1 + kBeta) / 2 : window_;
    window_ = threshold_ = std::max(2.0, window_ * kBeta);
    recover_ = orders_;
    sent_in_recovery_ = acked_in_recovery_ = 0;
    epoch_ms_ = 0;
  }
  void Grow(double rtt_ms, double now_ms) {
    if (window_ < threshold_) {
      window_ += 1;
      const double late_ms = std::clamp(shortest_ms_ / 8, 4.0, 16.0);
      if (window_ > 16 && rtt_ms > shortest_ms_ + late_ms) threshold_ = window_;
      return;
    }
    if (epoch_ms_ == 0) {
      epoch_ms_ = now_ms;
      most_ = std::max(most_, window_);
      k_ = std::cbrt((most_ - window_) / 0.4);
    }
    const double t = (now_ms - epoch_ms_ + shortest_ms_) * 1e-3;
    const double target = std::min(1.5 * window_, most_ + 0.4 * std::pow(t - k_, 3));
    if (target > window_) window_ += (target - window_) / window_;
  }

  std::deque<Sent> flying_;
  std::set<std::int64_t> lost_, behind_gaps_;
  std::int64_t next_ = 0, in_order_ = 0, orders_ = 0, recover_ = 0;
  std::int64_t sent_in_recovery_ = 0, acked_in_recovery_ = 0;
  double window_ = 10, threshold_ = 1e9, most_ = 0, k_ = 0, epoch_ms_ = 0;
  double smoothed_ms_ = 0, shortest_ms_ = 1e9;
  bool full_ = false;
};

struct LossyLineOptions {
  double mbit = 100, rtt_ms = 100, queue_ms = 20;
  // The router stands still for so long, so often, and then has all at once.
  double still_ms = 0, still_every_ms = 0;
  bool count_behind_gaps = true;
  std::size_t connections_max = 4;
};

class LossyLine {
 public:
  explicit LossyLine(const LossyLineOptions& options) : options_(options) {
    connections_.resize(1);
  }

  // Part of the line that was used.
  double Run(double length_s) {
    const std::int64_t before = served_;
    const double end_ms = now_ms_ + length_s * 1e3;
    while (now_ms_ < end_ms) Step();
    return static_cast<double>(served_ - before) / (PacketsPerMs() * length_s * 1e3);
  }
  double pace_of_line() const {
    return static_cast<double>(pacer_.pace().value) / (options_.mbit * 1e6);
  }
  double first_pace_of_line() const { return first_pace_ / (options_.mbit * 1e6); }
  std::size_t connections() const { return connections_.size(); }
  int drops() const { return drops_; }

 private:
  struct Arrival {
    std::size_t connection;
    Connection::Sent sent;
    double at_ms;
  };

  double PacketsPerMs() const { return options_.mbit * 125 / kPacketBytes; }

  void Step() {
    now_ms_ += 1;
    for (; !acks_.empty() && acks_.front().at_ms <= now_ms_; acks_.pop_front()) {
      connections_[acks_.front().connection].OnAck(acks_.front().sent, now_ms_);
    }
    SendSome();
    Serve();
    if (std::fmod(now_ms_, kMsPerUpdate) == 0) Look();
    if (std::fmod(now_ms_, 1000) == 0) AskForConnections();
  }

  void SendSome() {
    const double pace = static_cast<double>(pacer_.pace().value) / 8e3 / kPacketBytes;
    tokens_ = std::min(tokens_ + pace, 20 * pace);
    bool blocked = true;
    for (bool sent = true; sent;) {
      sent = false;
      for (std::size_t i = 0; i < connections_.size(); ++i) {
        if (!connections_[i].MaySend()) continue;
        if (pace > 0 && tokens_ < 1) {
          blocked = false;
          continue;
        }
        tokens_ -= 1;
        arriving_.push_back({i, connections_[i].Send(now_ms_), 0});
        taken_ += static_cast<std::uint64_t>(kPacketBytes);
        sent = true;
      }
    }
    for (Connection& connection : connections_) connection.set_full(!connection.MaySend());
    limited_ = limited_ || !blocked;
    if (blocked) stalled_ms_ += 1;
  }

  void Serve() {
    const bool still = options_.still_every_ms > 0 &&
                       std::fmod(now_ms_, options_.still_every_ms) < options_.still_ms;
    if (still) return;
    const auto room = static_cast<std::size_t>(options_.queue_ms * PacketsPerMs());
    for (; !arriving_.empty(); arriving_.pop_front()) {
      if (queue_.size() < room) {
        queue_.push_back(arriving_.front());
      } else {
        ++drops_;
      }
    }
    credit_ = std::min(credit_ + PacketsPerMs(), 2 * PacketsPerMs());
    for (; !queue_.empty() && credit_ >= 1; credit_ -= 1, queue_.pop_front()) {
      acks_.push_back(queue_.front());
      acks_.back().at_ms = now_ms_ + options_.rtt_ms;
      ++served_;
    }
  }

  void Look() {
    PaceSample sample;
    std::int64_t delivered = 0;
    for (const Connection& one : connections_) {
      delivered += options_.count_behind_gaps ? one.delivered() : one.in_order();
      if (one.flying() == 0 || one.smoothed_ms() == 0) continue;
      const Duration queue = Milliseconds(one.queue_ms());
      if (sample.queue && queue >= *sample.queue) continue;
      sample.queue = queue;
      sample.round_trip = Milliseconds(one.smoothed_ms());
    }
    sample.delivered_bytes = static_cast<std::uint64_t>(
        static_cast<double>(delivered - std::exchange(delivered_, delivered)) * kPacketBytes);
    sample.limited = std::exchange(limited_, false);
    pacer_.Update(TimePoint(Milliseconds(now_ms_)), sample);
    if (first_pace_ == 0) first_pace_ = static_cast<double>(pacer_.pace().value);
  }

  void AskForConnections() {
    const bool wanted =
        demand_.Tick(TimePoint(Milliseconds(now_ms_)), stalled_ms_, taken_, pacer_.pace());
    if (wanted && connections_.size() < options_.connections_max) connections_.emplace_back();
  }

  const LossyLineOptions options_;
  UploadPacer pacer_;
  StripeDemand demand_;
  std::vector<Connection> connections_;
  std::deque<Arrival> arriving_, queue_, acks_;
  double now_ms_ = 0, tokens_ = 0, credit_ = 0, stalled_ms_ = 0, first_pace_ = 0;
  std::int64_t served_ = 0, delivered_ = 0;
  std::uint64_t taken_ = 0;
  bool limited_ = false;
  int drops_ = 0;
};

TEST(LossyLine, TheFirstPaceIsTheLinesThoughPacketsAreMissing) {
  // A further connection's slow start overflows the router: half of the line is acknowledged in
  // order while gaps are closed, all of it is delivered.
  for (const double still_ms : {0.0, 40.0, 60.0, 80.0}) {
    SCOPED_TRACE(still_ms);
    LossyLine line({.still_ms = still_ms, .still_every_ms = 1e9});
    line.Run(15);
    EXPECT_GT(line.drops(), 100);
    EXPECT_NEAR(line.first_pace_of_line(), 1, 0.03);
    EXPECT_GT(line.Run(15), 0.93);
    EXPECT_GT(line.Run(30), 0.99);
  }
}

TEST(LossyLine, WhatCameInOrderOnlyWouldBeFarLess) {
  LossyLine line({.still_ms = 60, .still_every_ms = 1e9, .count_behind_gaps = false});
  line.Run(15);
  EXPECT_LT(line.first_pace_of_line(), 0.6);
}

TEST(LossyLine, MoreConnectionsMakeUpForWindowsThatLossesHalved) {
  // With 40 ms of a standing router, half of which its queue has no room for, every 7 s.
  const LossyLineOptions losses{.still_ms = 40, .still_every_ms = 7000};
  LossyLineOptions two_connections = losses;
  two_connections.connections_max = 2;
  LossyLine two(two_connections), four(losses);
  two.Run(15);
  four.Run(15);
  const double of_two = two.Run(60);
  const double of_four = four.Run(60);
  EXPECT_LT(of_two, 0.85);
  EXPECT_GT(of_four, 0.92);
  EXPECT_EQ(four.connections(), 4u);  // with a pace of the line known, too
  EXPECT_NEAR(four.pace_of_line(), 1, 0.05);
}

TEST(LossyLine, ALongQueueLosesNothingAndTwoConnectionsFillTheLine) {
  LossyLine line({.queue_ms = 200});
  line.Run(15);
  EXPECT_GT(line.Run(15), 0.99);
  EXPECT_EQ(line.drops(), 0);
  EXPECT_EQ(line.connections(), 2u);
}

// Ticks of a second each: chunks waited for the network for `stalled_ms` of it.
class Ticks {
 public:
  Ticks() { demand_.Start(now_, 0); }
  bool Tick(double stalled_ms, double mbit, double rate_mbit) {
    now_ += seconds(1);
    stalled_ms_ += stalled_ms;
    taken_ += static_cast<std::uint64_t>(mbit * 125'000);
    return demand_.Tick(now_, stalled_ms_, taken_,
                        BitsPerSecond{static_cast<std::uint64_t>(rate_mbit * 1e6)});
  }

 private:
  StripeDemand demand_;
  TimePoint now_{seconds(1000)};
  double stalled_ms_ = 0;
  std::uint64_t taken_ = 0;
};

TEST(StripeDemand, IsThereWhereTheNetworkHoldsUpAndNoRateDoes) {
  Ticks ticks;
  EXPECT_FALSE(ticks.Tick(900, 40, 0));
  EXPECT_TRUE(ticks.Tick(900, 40, 0));
  EXPECT_FALSE(ticks.Tick(900, 40, 0));  // one more is on its way
  EXPECT_TRUE(ticks.Tick(600, 40, 90));
  EXPECT_FALSE(ticks.Tick(600, 40, 90));
  EXPECT_FALSE(ticks.Tick(400, 40, 90));  // mostly it waits for something else
  EXPECT_FALSE(ticks.Tick(600, 40, 90));
  EXPECT_FALSE(ticks.Tick(900, 85, 90));  // the line is full
  EXPECT_FALSE(ticks.Tick(900, 90, 90));
  EXPECT_FALSE(ticks.Tick(900, 80, 90));
  EXPECT_TRUE(ticks.Tick(900, 80, 90));
}

}  // namespace
}  // namespace shoal::net
