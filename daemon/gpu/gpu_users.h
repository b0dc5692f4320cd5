// Who else works on the GPU that this peer trains on.

#ifndef SHOAL_DAEMON_GPU_GPU_USERS_H_
#define SHOAL_DAEMON_GPU_GPU_USERS_H_

#include <cstdint>
#include <span>
#include <string>

#include "daemon/gpu/gpu_driver.h"
#include "daemon/terms/machine.h"

namespace shoal::daemon {

// A program works on the GPU that takes so much of its time; of a browser or an editor that shows
// a page it is less.
inline constexpr std::uint32_t kGpuUserPercent = 10;
// Where the driver does not tell times: that holds so much of its memory.
inline constexpr std::uint64_t kGpuUserBytes = 1ull << 30;

// The program that takes most of it, but for this peer, its children and what draws the desktop;
// empty: none works on it. Thread: any.
std::string GpuUser(std::span<const GpuProcess> processes, const Machine& machine);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_GPU_GPU_USERS_H_
