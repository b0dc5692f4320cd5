// DeviceMemory: memory of a GPU, for modules that know neither LibTorch nor CUDA.

#ifndef SHOAL_COMMON_MEMORY_DEVICE_MEMORY_H_
#define SHOAL_COMMON_MEMORY_DEVICE_MEMORY_H_

#include <cstddef>

#include "common/status.h"

namespace shoal {

// Thread: any.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // The device's number.
  virtual int device() const = 0;
  // Aligned to 256 bytes, of any content. Resource exhausted where the device has no more. Nothing
  // that the device was asked to do may use the memory any more when it is freed.
  virtual Result<std::byte*> Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* memory, std::size_t bytes) = 0;
};

}  // namespace shoal

#endif  // SHOAL_COMMON_MEMORY_DEVICE_MEMORY_H_
