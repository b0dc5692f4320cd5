#include "net/pacing/low_water.h"

#include <algorithm>

namespace shoal::net {
namespace {

constexpr double kRateWeight = 0.2;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void LowWater::OnMessage(const ReceiveFigures& figures, std::uint64_t bytes,
                         std::optional<std::uint64_t> more) {
  const std::uint64_t taken = figures.taken_bytes;
  // TLS and HTTP/2 add bytes, so this grows from message to message. But bytes taken before the
  // last look cannot be beyond a message that was not whole then.
  const std::uint64_t grown = beyond_ + (taken - message_taken_);
  beyond_ = std::min(grown - std::min(grown, bytes), taken - looked_.taken_bytes);
  message_taken_ = taken;
  if (more) until_ = taken - beyond_ + std::min(*more, kMoreMax);
  if (looking_) Decide(figures);
}

void LowWater::Start(TimePoint now, const ReceiveFigures& figures) {
  looking_ = true;
  released_ = false;
  quiet_looks_ = 0;
  looked_at_ = now;
  looked_ = figures;
  Decide(figures);
}

void LowWater::OnLook(TimePoint now, const ReceiveFigures& figures) {
  const bool taken = figures.taken_bytes != looked_.taken_bytes;
  const bool waits = figures.waiting_bytes > 0 && looked_.waiting_bytes > 0;
  released_ = !taken && (released_ || waits);
  const std::uint64_t came =
      figures.taken_bytes + figures.waiting_bytes - looked_.taken_bytes - looked_.waiting_bytes;
  const double seconds = Seconds(now - looked_at_);
  if (came > 0 && seconds > 0) {
    const double rate = static_cast<double>(came) / seconds;
    rate_ = rate_ == 0 ? rate : rate_ + kRateWeight * (rate - rate_);
  }
  quiet_looks_ = came > 0 ? 0 : quiet_looks_ + 1;
  looked_at_ = now;
  looked_ = figures;
  looking_ = quiet_looks_ < kQuietLooks && figures.taken_bytes < until_;
  Decide(figures);
}

void LowWater::Decide(const ReceiveFigures& figures) {
  const std::uint64_t known = until_ - std::min(until_, figures.taken_bytes);
  // All that waits, and comes before the next look, may be taken by then.
  const double sure = static_cast<double>(known) - static_cast<double>(figures.waiting_bytes) -
                      rate_ * Seconds(kLook);
  const double bytes = std::min({rate_ * Seconds(kBatch), sure, kBytesMax});
  const bool on = looking_ && !released_ && bytes >= kBytesMin;
  mark_ = on ? static_cast<std::uint32_t>(bytes) : kOff;
}

}  // namespace shoal::net
