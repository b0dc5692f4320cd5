#include "net/pacing/low_water_loop.h"

#include <algorithm>
#include <utility>

namespace shoal::net {

LowWaterLoop::Watched* LowWaterLoop::WatchedOf(const TcpSocket& socket) {
  const auto found = watched_.find(socket.cookie);
  if (found != watched_.end()) return &found->second;
  // Whoever comes new makes room of those that are gone.
  std::erase_if(watched_, [this](const auto& one) { return !sockets_.figures(one.second.socket); });
  return &watched_.emplace(socket.cookie, Watched{socket, {}}).first->second;
}

void LowWaterLoop::OnMessage(std::span<const TcpSocket> sockets, std::uint64_t bytes,
                             std::optional<std::uint64_t> more) {
  MutexLock lock(mutex_);
  for (const TcpSocket& socket : sockets) {
    const auto figures = sockets_.figures(socket);
    if (!figures) continue;
    Watched* const watched = WatchedOf(socket);
    LowWater& low_water = watched->low_water;
    // Two links with one peer find each other's sockets, too, and a link may have several.
    if (!low_water.Took(*figures, bytes)) continue;
    low_water.OnMessage(*figures, bytes, more);
    if (more.value_or(0) > 0 && !low_water.looking()) {
      low_water.Start(executor_->clock().Now(), *figures);
      LookLater();
    }
    Set(watched);
  }
}

void LowWaterLoop::LookLater() {
  if (std::exchange(timer_, true)) return;
  executor_->PostAfter("link.low_water", LowWater::kLook, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    MutexLock lock(self->mutex_);
    self->Look();
  });
}

void LowWaterLoop::Look() {
  timer_ = false;
  const TimePoint now = executor_->clock().Now();
  for (auto one = watched_.begin(); one != watched_.end();) {
    Watched& watched = one->second;
    const auto figures = sockets_.figures(watched.socket);
    if (!figures) {
      one = watched_.erase(one);
      continue;
    }
    ++one;
    if (!watched.low_water.looking()) continue;
    watched.low_water.OnLook(now, *figures);
    Set(&watched);
    if (watched.low_water.looking()) LookLater();
  }
}

void LowWaterLoop::Set(Watched* watched) {
  const std::uint32_t wanted = watched->low_water.mark();
  // A mark that is a little lower than it could be is not worth a call.
  if (watched->mark <= wanted && watched->mark >= wanted - wanted / 8) return;
  watched->mark = sockets_.set_mark(watched->socket, wanted) ? wanted : LowWater::kOff;
}

}  // namespace shoal::net
