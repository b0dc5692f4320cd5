// What kind of device a peer computes on, kept in its folder: with device = "auto" a peer whose GPU
// is gone must not train on its CPU without a word, a hundred times slower.

#ifndef SHOAL_DAEMON_GPU_SETTLED_DEVICE_H_
#define SHOAL_DAEMON_GPU_SETTLED_DEVICE_H_

#include <string>

#include "common/status.h"

namespace shoal::daemon {

// `path`: the file that keeps "gpu" or "cpu". `asked`: the setting device. `gpu`: what it was found
// to mean now. Aborted: "auto" means the CPU now, and meant a GPU before. Else the file is written
// if it changes; what it held is not believed further than that. Thread: any.
[[nodiscard]] Status SettleDevice(const std::string& path, const std::string& asked, bool gpu);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_GPU_SETTLED_DEVICE_H_
