// The wall clock, as stored events and invites have it.

#ifndef SHOAL_SCHEDULER_DOOR_WALL_CLOCK_H_
#define SHOAL_SCHEDULER_DOOR_WALL_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace shoal::scheduler {

// Since 1970, UTC. Thread: any.
inline std::uint64_t UnixMilliseconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(ms, 0));
}

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_DOOR_WALL_CLOCK_H_
