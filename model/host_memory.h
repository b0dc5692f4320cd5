// LibTorch's memory on the host, from a pool: the tensors of a layer are megabytes large and live
// for milliseconds (common/memory/block_pool.h).
//
// Internal to model/. Thread: any.

#ifndef SHOAL_MODEL_HOST_MEMORY_H_
#define SHOAL_MODEL_HOST_MEMORY_H_

#include <cstdint>

namespace shoal::model {

// For all tensors of the process made from now on. Later calls change nothing.
void UsePooledHostMemory();
// Bounds the bytes of all those tensors together; more is out of memory. 0: no bound.
void LimitHostTensors(std::uint64_t bytes);
std::uint64_t HostTensorLimit();
// What they have now, and the most that they had at a time since the last call of ForgetHostPeak.
std::uint64_t HostTensorBytes();
std::uint64_t HostTensorPeak();
void ForgetHostPeak();
// Gives back to the system what no tensor uses, on the host and on CUDA devices: a step's blocks
// wait for the next step.
void TrimHostMemory();
// The same at the end of its life.
struct HostMemoryUser {
  HostMemoryUser() = default;
  ~HostMemoryUser() { TrimHostMemory(); }
  HostMemoryUser(const HostMemoryUser&) = delete;
  HostMemoryUser& operator=(const HostMemoryUser&) = delete;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_HOST_MEMORY_H_
