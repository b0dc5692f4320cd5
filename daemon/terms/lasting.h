// Lasting: an observation that must last before it counts, so that one that comes and goes pauses
// nobody again and again: each pause costs the swarm a repair.

#ifndef SHOAL_DAEMON_TERMS_LASTING_H_
#define SHOAL_DAEMON_TERMS_LASTING_H_

#include <chrono>
#include <optional>

#include "common/clock.h"

namespace shoal::daemon {

// How long a program must be gone, or the machine be on mains, before training goes on.
inline constexpr Duration kResumeDelay = std::chrono::seconds(30);
// How long it must be on battery before a pause: a plug that is changed is none.
inline constexpr Duration kBatteryDelay = std::chrono::seconds(10);
// How long another program must work on the GPU: a picture that is opened is none.
inline constexpr Duration kGpuUserDelay = std::chrono::seconds(8);

class Lasting {
 public:
  Lasting(Duration begins_after, Duration ends_after)
      : begins_after_(begins_after), ends_after_(ends_after) {}

  // From the next Update on.
  void EndAfter(Duration ends_after) { ends_after_ = ends_after; }
  void Forget() {
    counts_ = false;
    differs_since_.reset();
  }

  // What counts now that this was seen; the times seen do not go back.
  bool Update(bool seen, TimePoint now) {
    if (seen == counts_) {
      differs_since_.reset();
      return counts_;
    }
    if (!differs_since_) differs_since_ = now;
    if (now - *differs_since_ >= (counts_ ? ends_after_ : begins_after_)) {
      counts_ = seen;
      differs_since_.reset();
    }
    return counts_;
  }

 private:
  const Duration begins_after_;
  Duration ends_after_;
  bool counts_ = false;
  std::optional<TimePoint> differs_since_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_LASTING_H_
