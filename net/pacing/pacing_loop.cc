#include "net/pacing/pacing_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace shoal::net {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(25);
// Acknowledgements come in bursts, mostly where the other end sends, too.
constexpr std::uint64_t kBusyBytes = 2 * 1448;
constexpr int kBusyTicks = 4;
// The kernel may hold this much time of data unsent.
constexpr double kUnsentSeconds = 0.010;
constexpr double kUnsentBytesMin = 64 * 1024;
constexpr double kUnsentBytesMax = 2 << 20;
// A connection's rate is its highest of the last seconds.
constexpr double kRateKept = 0.98;
// One connection may go faster than the pace for all, so that the limiter is what counts. But a
// burst of one connection goes out spread, and makes no queue.
constexpr double kConnectionAhead = 1.2;
// A way that is shorter than this and this many times shorter than another busy one does not leave
// the house: hardly a home line takes less.
constexpr Duration kNearRoundTrip = std::chrono::milliseconds(3);
constexpr int kNearTimes = 4;
// From this queue on links are probed that send nothing.
constexpr Duration kProbedQueue = std::chrono::milliseconds(1);
// Weight of what was before, per tick, in the share of links among all uploads.
constexpr double kRecent = 0.97;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Duration FromMilliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

void PacingLoop::Start() {
  SHOAL_ASSERT_ON(*executor_);
  if (running_) return;
  running_ = true;
  last_tick_ = executor_->clock().Now();
  executor_->PostAfter("link.pace", kTick, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Tick();
  });
}

void PacingLoop::Tick() {
  running_ = false;
  const TimePoint began = executor_->clock().Now();
  std::optional<std::vector<LinkPulse>> pulses;
  {
    MutexLock lock(mutex_);
    if (pulses_) pulses = pulses_(probe_);
  }
  if (!pulses) return;
  PaceSample sample = Look(*pulses);
  sample.took = executor_->clock().Now() - began;
  if (pace_) {
    upload_->SetPace(pacer_.Update(began, sample));
    {
      MutexLock lock(mutex_);
      line_ = pacer_.line();
    }
    probe_ = sample.queue &&
             std::min(*sample.queue, sample.one_way_queue.value_or(*sample.queue)) > kProbedQueue;
  }
  Start();
}

PaceSample PacingLoop::Look(const std::vector<LinkPulse>& pulses) {
  const double seconds = std::max(1e-3, Seconds(executor_->clock().Now() - last_tick_));
  PaceSample sample;
  std::uint64_t delivered = 0;
  std::vector<PathSample> paths;
  std::map<std::uint64_t, Watched> watched;
  for (const LinkPulse& pulse : pulses) {
    sample.limited = sample.limited || pulse.limited;
    paths.push_back(LookAt(pulse, seconds, &watched, &delivered));
    sample.under_way = sample.under_way || paths.back().under_way;
  }
  watched_ = std::move(watched);
  sample.delivered_bytes =
      static_cast<std::uint64_t>(static_cast<double>(delivered) / ShareOfLinks(pulses));
  sample.seen_bytes = delivered;
  JoinPaths(paths, &sample);
  return sample;
}

PathSample PacingLoop::LookAt(const LinkPulse& pulse, double seconds,
                              std::map<std::uint64_t, Watched>* watched,
                              std::uint64_t* delivered_in_all) {
  PathSample path{{}, {}, pulse.queue, pulse.round_trip_least, false};
  for (const TcpSocket& socket : pulse.sockets) {
    // Two links with one peer find each other's sockets, too.
    if (watched->contains(socket.cookie)) continue;
    const auto figures = figures_(socket);
    if (!figures) continue;
    const auto known = watched_.find(socket.cookie);
    Watched now =
        known == watched_.end() ? Watched{figures->delivered_bytes, 0, 0, 0, 0} : known->second;
    // A short segment behind a gap counts as a full one until the gap is closed.
    const std::uint64_t before = now.delivered_bytes;
    now.delivered_bytes = std::max(before, figures->delivered_bytes);
    const std::uint64_t delivered = now.delivered_bytes - before;
    now.busy_ticks = delivered >= kBusyBytes ? kBusyTicks : std::max(0, now.busy_ticks - 1);
    Tune(socket, &now, delivered, seconds);
    watched->emplace(socket.cookie, now);
    *delivered_in_all += delivered;
    path.under_way = path.under_way || figures->unacked_segments > 0;
    const bool busy = now.busy_ticks > 0 && figures->unacked_segments > 0;
    if (!busy || figures->min_rtt_ms <= 0) continue;
    const Duration queue = FromMilliseconds(std::max(0.0, figures->rtt_ms - figures->min_rtt_ms));
    if (path.queue && queue >= *path.queue) continue;
    path.queue = queue;
    path.round_trip = FromMilliseconds(figures->rtt_ms);
  }
  return path;
}

void JoinPaths(std::span<const PathSample> paths, PaceSample* sample) {
  Duration longest{};
  for (const PathSample& path : paths) {
    if (path.queue) longest = std::max(longest, path.round_trip_least);
  }
  const Duration near = std::min(kNearRoundTrip, longest / kNearTimes);
  for (const PathSample& path : paths) {
    if (path.round_trip_least > Duration::zero() && path.round_trip_least < near) continue;
    if (path.one_way_queue) {
      sample->one_way_queue =
          std::min(*path.one_way_queue, sample->one_way_queue.value_or(*path.one_way_queue));
    }
    if (!path.queue || (sample->queue && *path.queue >= *sample->queue)) continue;
    sample->queue = path.queue;
    sample->round_trip = path.round_trip;
  }
}

void PacingLoop::Tune(const TcpSocket& socket, Watched* watched, std::uint64_t delivered,
                      double seconds) {
  watched->rate = std::max(kRateKept * watched->rate, static_cast<double>(delivered) / seconds);
  const auto unsent = static_cast<std::uint32_t>(
      std::clamp(kUnsentSeconds * watched->rate, kUnsentBytesMin, kUnsentBytesMax));
  if (unsent > watched->unsent_limit || unsent < watched->unsent_limit / 2) {
    if (watched->rate > 0 && LimitUnsentBytes(socket, unsent)) watched->unsent_limit = unsent;
  }
  if (!pace_) return;
  const double pace = upload_->rate().bytes_per_second();
  const std::uint64_t pacing =
      pace > 0 ? static_cast<std::uint64_t>(kConnectionAhead * pace) : ~std::uint64_t{0};
  if (pacing != watched->pacing_rate && (pace > 0 || watched->pacing_rate != 0)) {
    LimitPacingRate(socket, pacing);
    watched->pacing_rate = pacing;
  }
}

double PacingLoop::ShareOfLinks(const std::vector<LinkPulse>& pulses) {
  std::uint64_t sent = 0;
  for (const LinkPulse& pulse : pulses) sent += pulse.sent_wire_bytes;
  const std::uint64_t taken = upload_->taken();
  // A link that ended takes its count with it.
  if (sent >= sent_) {
    recently_taken_ = kRecent * recently_taken_ + static_cast<double>(taken - taken_);
    recently_sent_ = kRecent * recently_sent_ + static_cast<double>(sent - sent_);
  }
  taken_ = taken;
  sent_ = sent;
  if (recently_taken_ <= 0) return 1;
  return std::clamp(recently_sent_ / recently_taken_, 0.1, 1.0);
}

}  // namespace shoal::net
