// The queue of a build without CUDA.

#include "compression/device/device_queue.h"

namespace shoal::compression {

Result<std::unique_ptr<DeviceQueue>> NewCudaQueue() {
  return Unavailable(
      "device codec: this program was built without CUDA; use the codec on the CPU, or build the "
      "preset cuda");
}

Result<std::unique_ptr<DeviceQueue>> NewCudaQueue(std::shared_ptr<DeviceMemory>) {
  return NewCudaQueue();
}

}  // namespace shoal::compression
