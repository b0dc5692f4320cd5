// NVIDIA's driver by its management library (NVML), which comes with it: loaded where it is there,
// so that programs start without. There is none for AMD's or Intel's GPUs.

#ifndef SHOAL_DAEMON_GPU_NVIDIA_DRIVER_H_
#define SHOAL_DAEMON_GPU_NVIDIA_DRIVER_H_

#include <memory>
#include <string>

#include "common/status.h"
#include "daemon/gpu/gpu_driver.h"

namespace shoal::daemon {

inline constexpr const char* kNvidiaLibrary = "libnvidia-ml.so.1";

// `card`: a PCI bus id ("0000:01:00.0"), or the driver's number of a card ("0"). `library`: its
// path, or its name where the loader finds it. The error says what is missing.
Result<std::unique_ptr<GpuDriver>> OpenNvidiaDriver(const std::string& card,
                                                    const std::string& library = kNvidiaLibrary);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_GPU_NVIDIA_DRIVER_H_
