// GpuDriver: what the driver of one GPU tells and does; tests pass a fake one.

#ifndef SHOAL_DAEMON_GPU_GPU_DRIVER_H_
#define SHOAL_DAEMON_GPU_GPU_DRIVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::daemon {

// A process that has memory of the GPU.
struct GpuProcess {
  int pid = 0;
  std::uint64_t memory_bytes = 0;        // 0: not told
  std::optional<std::uint32_t> percent;  // of the GPU's time, since the last look; none: not told
};

// What is not told is empty.
struct GpuReading {
  std::string name;  // of the product
  std::string lost;  // why the driver cannot reach the card any more, in its words; empty: it can
  std::optional<std::uint64_t> power_mw, power_limit_mw;
  std::optional<std::uint64_t> energy_mj;  // since the driver was loaded
  std::optional<std::uint32_t> busy_percent;
  std::uint64_t memory_bytes = 0, memory_used_bytes = 0;  // 0: not told
  std::vector<GpuProcess> processes;                      // each once, if they were asked for
};

// Thread: one at a time. Calls may take seconds.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual GpuReading Read(bool processes) = 0;
  // 0: back to the limit that it had before. An error says what to do.
  virtual Status LimitPower(std::uint32_t watts) = 0;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_GPU_GPU_DRIVER_H_
