// PacingLoop: watches the TCP connections of a peer's links, lets UploadPacer set the pace of the
// upload limiter, and keeps what waits unsent in the kernel short.

#ifndef SHOAL_NET_PACING_PACING_LOOP_H_
#define SHOAL_NET_PACING_PACING_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/pacing/rate_limiter.h"
#include "net/pacing/socket_tuning.h"
#include "net/pacing/upload_pacer.h"

namespace shoal::net {

// What a link tells since it was asked last.
struct LinkPulse {
  std::vector<TcpSocket> sockets;
  std::uint64_t sent_wire_bytes = 0;  // since the link was made
  bool limited = false;               // a chunk waited for the limiter
  // The least that a ping waited on its way there (queue_delay.h); nullopt: none was answered.
  std::optional<Duration> queue;
  Duration round_trip_least{};  // of all pings; 0: none was answered yet
  std::size_t stripes = 1;
};

// The way to one peer, as it was since it was looked at last.
struct PathSample {
  // Of its busy connection whose packets waited least; nullopt: none was busy.
  std::optional<Duration> queue;
  Duration round_trip{};
  std::optional<Duration> one_way_queue;  // as LinkPulse says
  Duration round_trip_least{};            // as LinkPulse says
  bool under_way = false;                 // bytes were sent and not yet acknowledged
};

// Queueing delay of the uplink that all paths share: the least over the paths. Paths that are much
// shorter than others are inside the LAN and do not use the uplink, so they do not count. Pure.
void JoinPaths(std::span<const PathSample> paths, PaceSample* sample);

// Thread: the executor's.
class PacingLoop : public std::enable_shared_from_this<PacingLoop> {
 public:
  // One per open link; nullopt: there is no link, the loop stops until Start. `probe`: also ping
  // idle links. Delay on every path is our uplink's queue; delay on one path is the remote side's.
  using Pulses = std::function<std::optional<std::vector<LinkPulse>>(bool probe)>;

  using Figures = std::function<std::optional<TcpFigures>(const TcpSocket& socket)>;

  // `pace`: whether to set the limiter's pace. `figures`: reads those of the kernel.
  PacingLoop(Executor* executor, std::shared_ptr<RateLimiter> upload, bool pace, Pulses pulses,
             Figures figures = ReadTcpFigures)
      : executor_(executor),
        upload_(std::move(upload)),
        pace_(pace),
        figures_(std::move(figures)),
        pulses_(std::move(pulses)) {}

  // There are links now. Idempotent.
  void Start();
  // What the line was measured to take (upload_pacer.h); 0: not known. Thread: any.
  BitsPerSecond line() const {
    MutexLock lock(mutex_);
    return line_;
  }
  // `pulses` is not called any more. Thread: any.
  void Stop() {
    MutexLock lock(mutex_);
    pulses_ = nullptr;
  }

 private:
  struct Watched {
    std::uint64_t delivered_bytes = 0;
    double rate = 0;  // bytes per second, recent peak
    int busy_ticks = 0;
    std::uint32_t unsent_limit = 0;
    std::uint64_t pacing_rate = 0;
  };

  void Tick();
  PaceSample Look(const std::vector<LinkPulse>& pulses);
  PathSample LookAt(const LinkPulse& pulse, double seconds,
                    std::map<std::uint64_t, Watched>* watched, std::uint64_t* delivered);
  void Tune(const TcpSocket& socket, Watched* watched, std::uint64_t delivered, double seconds);
  double ShareOfLinks(const std::vector<LinkPulse>& pulses);

  Executor* const executor_;
  const std::shared_ptr<RateLimiter> upload_;
  const bool pace_;
  const Figures figures_;
  mutable Mutex mutex_;
  Pulses pulses_ SHOAL_GUARDED_BY(mutex_);
  BitsPerSecond line_ SHOAL_GUARDED_BY(mutex_);
  bool running_ = false;
  bool probe_ = false;
  TimePoint last_tick_{};
  UploadPacer pacer_;
  std::map<std::uint64_t, Watched> watched_;  // by the socket's cookie
  std::uint64_t taken_ = 0, sent_ = 0;
  double recently_taken_ = 0, recently_sent_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_PACING_LOOP_H_
