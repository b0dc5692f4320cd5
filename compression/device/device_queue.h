// DeviceQueue: the little that device codecs need of a GPU: memory, copies and the passes over
// sections. cuda_queue.cu has the real one; tests run the same lanes in loops on the host.
//
// Internal to compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_QUEUE_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/memory/device_memory.h"
#include "common/status.h"
#include "compression/device/jobs/device_jobs.h"

namespace shoal::compression {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // The stream of all that follows; null: the queue's own, or the default one if it has none. Once
  // in each call from outside, which may come on any thread.
  virtual void Use(void* stream) = 0;
  // The one that is used.
  virtual void* stream() const { return nullptr; }

  // Aligned to 256 bytes.
  virtual Result<std::byte*> Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* memory) = 0;
  // Of the host, page-locked: what copies to and from the device are fastest with.
  virtual Result<std::byte*> AllocateHost(std::size_t bytes) = 0;
  virtual void FreeHost(std::byte* memory) = 0;

  // What follows is done in this order and complete after Wait, which says whether all went well
  // since the last one. Host memory stays as it is until then.
  virtual void ToDevice(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void ToHost(void* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void Zero(std::byte* at, std::size_t bytes) = 0;
  virtual void Run(const DeviceJob& job) = 0;
  virtual Status Wait() = 0;
  // From the first to the last Run before each Wait, in all; 0 where nobody measures it.
  virtual double busy_ms() const { return 0; }
};

// The queue of the current CUDA device; unavailable if there is none or the build has no CUDA.
Result<std::unique_ptr<DeviceQueue>> NewCudaQueue();
// The same on the device of `memory`, from which it allocates, with a stream of its own that runs
// beside all others.
Result<std::unique_ptr<DeviceQueue>> NewCudaQueue(std::shared_ptr<DeviceMemory> memory);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_QUEUE_H_
