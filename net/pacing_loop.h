// PacingLoop: watches the TCP connections of a peer's links, lets UploadPacer set the pace of the
// upload limiter, and keeps what waits unsent in the kernel short.

#ifndef SHOAL_NET_PACING_LOOP_H_
#define SHOAL_NET_PACING_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/rate_limiter.h"
#include "net/socket_tuning.h"
#include "net/upload_pacer.h"

namespace shoal::net {

// What a link tells since it was asked last.
struct LinkPulse {
  std::vector<TcpSocket> sockets;
  std::uint64_t sent_wire_bytes = 0;  // since the link was made
  bool limited = false;               // a chunk waited for the limiter
  // The least that a ping waited on its way there (queue_delay.h); nullopt: none was answered.
  std::optional<Duration> queue;
};

// Thread: the executor's.
class PacingLoop : public std::enable_shared_from_this<PacingLoop> {
 public:
  // One per open link; nullopt: there is no link, the loop stops until Start.
  using Pulses = std::function<std::optional<std::vector<LinkPulse>>()>;

  // `pace`: set the limiter's pace, too.
  PacingLoop(Executor* executor, std::shared_ptr<RateLimiter> upload, bool pace, Pulses pulses)
      : executor_(executor), upload_(std::move(upload)), pace_(pace), pulses_(std::move(pulses)) {}

  // There are links now. Idempotent.
  void Start();
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
  void Tune(const TcpSocket& socket, Watched* watched, std::uint64_t delivered, double seconds);
  double ShareOfLinks(const std::vector<LinkPulse>& pulses);

  Executor* const executor_;
  const std::shared_ptr<RateLimiter> upload_;
  const bool pace_;
  Mutex mutex_;
  Pulses pulses_ SHOAL_GUARDED_BY(mutex_);
  bool running_ = false;
  TimePoint last_tick_{};
  UploadPacer pacer_;
  std::map<std::uint64_t, Watched> watched_;  // by the socket's cookie
  std::uint64_t taken_ = 0, sent_ = 0;
  double recently_taken_ = 0, recently_sent_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_LOOP_H_
