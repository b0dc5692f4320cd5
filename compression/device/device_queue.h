// DeviceQueue: the little that device codecs need of a GPU: memory, copies and the passes over
// sections. cuda_queue.cu has the real one; tests run the same lanes in loops on the host.
//
// Internal to compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_QUEUE_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/status.h"
#include "compression/device/jobs/device_jobs.h"

namespace shoal::compression {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // The stream of all that follows.
  virtual void Use(void* stream) = 0;

  // Aligned to 256 bytes.
  virtual Result<std::byte*> Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* memory) = 0;

  // What follows is done in this order and complete after Wait, which says whether all went well
  // since the last one. Host memory stays as it is until then.
  virtual void ToDevice(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void ToHost(void* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void Zero(std::byte* at, std::size_t bytes) = 0;
  virtual void Run(const DeviceJob& job) = 0;
  virtual Status Wait() = 0;
};

// The queue of the current CUDA device; unavailable if there is none or the build has no CUDA.
Result<std::unique_ptr<DeviceQueue>> NewCudaQueue();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_QUEUE_H_
