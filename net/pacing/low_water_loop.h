// LowWaterLoop: keeps the low-water marks of all sockets that links receive by (low_water.h).

#ifndef SHOAL_NET_PACING_LOW_WATER_LOOP_H_
#define SHOAL_NET_PACING_LOW_WATER_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/pacing/low_water.h"
#include "net/pacing/socket_tuning.h"

namespace shoal::net {

// Thread: any; timers on the executor's, and only while something is known to come.
class LowWaterLoop : public std::enable_shared_from_this<LowWaterLoop> {
 public:
  struct Sockets {
    std::function<std::optional<ReceiveFigures>(const TcpSocket&)> figures = ReadReceiveFigures;
    std::function<bool(const TcpSocket&, std::uint32_t)> set_mark = SetReceiveLowWater;
  };

  explicit LowWaterLoop(Executor* executor) : LowWaterLoop(executor, Sockets()) {}
  LowWaterLoop(Executor* executor, Sockets sockets)
      : executor_(executor), sockets_(std::move(sockets)) {}

  // A message of `bytes` came by one of `sockets`, and `more` bytes are known to come; null: it
  // told nothing of that.
  void OnMessage(std::span<const TcpSocket> sockets, std::uint64_t bytes,
                 std::optional<std::uint64_t> more);

 private:
  struct Watched {
    TcpSocket socket;
    LowWater low_water;
    std::uint32_t mark = LowWater::kOff;  // what the socket has
  };

  void Look() SHOAL_REQUIRES(mutex_);
  void LookLater() SHOAL_REQUIRES(mutex_);
  void Set(Watched* watched) SHOAL_REQUIRES(mutex_);
  Watched* WatchedOf(const TcpSocket& socket) SHOAL_REQUIRES(mutex_);

  Executor* const executor_;
  const Sockets sockets_;
  Mutex mutex_;
  bool timer_ SHOAL_GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, Watched> watched_ SHOAL_GUARDED_BY(mutex_);  // by the socket's cookie
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_LOW_WATER_LOOP_H_
