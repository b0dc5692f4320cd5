// ValueHome of a device: values lie in its memory, and only payloads and m images cross the bus.
//
// Codecs that have a form there (docs/algorithms/gpu.md) run there, each call on a stream of its
// own, so that segments and both directions of a boundary overlap each other and what the stage
// computes. Values of other codecs are copied to the host and coded there. Thread: any.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_VALUES_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_VALUES_H_

#include <functional>
#include <memory>

#include "common/memory/device_memory.h"
#include "common/status.h"
#include "compression/api/value_home.h"

namespace shoal::compression {

class DeviceQueue;

// On the CUDA device of `memory`. Unavailable where the build has no CUDA or no code for the
// device.
Result<std::shared_ptr<const ValueHome>> CudaValues(std::shared_ptr<DeviceMemory> memory);

// On any device; `new_queue` makes queues with streams of their own.
std::shared_ptr<const ValueHome> NewDeviceValues(
    std::shared_ptr<DeviceMemory> memory,
    std::function<Result<std::unique_ptr<DeviceQueue>>()> new_queue);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_VALUES_H_
