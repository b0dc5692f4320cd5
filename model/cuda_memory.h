// Memory of a CUDA device from LibTorch's pool, for values that a stage exchanges with codecs; and
// the end of what a stage has its device do.

#ifndef SHOAL_MODEL_CUDA_MEMORY_H_
#define SHOAL_MODEL_CUDA_MEMORY_H_

#include <memory>
#include <string>

#include "common/memory/device_memory.h"

namespace shoal::model {

// `id` as LibTorch spells it (torch_device.h). Null for the CPU, whose memory is the host's.
// Thread: any.
std::shared_ptr<DeviceMemory> NewCudaMemory(const std::string& id);

// Awaits what this thread had a device do on LibTorch's stream. On the CPU all is done already.
// Internal to model/: throws what LibTorch throws. Thread: compute.
class LaunchFence {
 public:
  explicit LaunchFence(const std::string& id);
  ~LaunchFence();
  LaunchFence(const LaunchFence&) = delete;
  LaunchFence& operator=(const LaunchFence&) = delete;

  void AwaitAll();
  // All but what came since the last call: so the device has work while more is prepared.
  void AwaitPrevious();

 private:
  struct Events;
  const std::unique_ptr<Events> events_;  // null: the CPU
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_CUDA_MEMORY_H_
