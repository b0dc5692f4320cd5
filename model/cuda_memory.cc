#include "model/cuda_memory.h"

#ifdef SHOAL_CUDA
#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>
#endif

#include "model/torch_guard.h"

namespace shoal::model {

#ifdef SHOAL_CUDA
namespace {

// The pool gives what was freed on a stream to that stream at once, and to no other one. Values
// have a stream to themselves, on which nothing runs: whoever frees some has awaited their uses,
// and never gets what LibTorch's own kernels may still read.
class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(c10::DeviceIndex device)
      : device_(device), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}

  int device() const override { return device_; }
  Result<std::byte*> Allocate(std::size_t bytes) override {
    std::byte* memory = nullptr;
    SHOAL_RETURN_IF_ERROR(Guard("memory for values", [&] {
      const c10::cuda::CUDAGuard guard(device_);
      memory = static_cast<std::byte*>(c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(
          std::max<std::size_t>(bytes, 1), stream_.stream()));
      return Status::Ok();
    }));
    return memory;
  }
  void Free(std::byte* memory, std::size_t) override {
    c10::cuda::CUDACachingAllocator::raw_delete(memory);
  }

 private:
  const c10::DeviceIndex device_;
  const c10::cuda::CUDAStream stream_;
};

}  // namespace

std::shared_ptr<DeviceMemory> NewCudaMemory(const std::string& id) {
  const c10::Device device(id);
  if (!device.is_cuda()) return nullptr;
  return std::make_shared<CudaMemory>(device.index());
}

struct LaunchFence::Events {
  explicit Events(c10::DeviceIndex index) : device(index) {
    const c10::cuda::CUDAGuard guard(device);
    for (cudaEvent_t& event : events) {
      C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
  }
  ~Events() {
    for (const cudaEvent_t event : events) (void)cudaEventDestroy(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  const c10::DeviceIndex device;
  cudaEvent_t events[2] = {};
  std::size_t next = 0;
  bool pending = false;  // the other one was recorded, and not awaited
};

LaunchFence::LaunchFence(const std::string& id)
    : events_(c10::Device(id).is_cuda() ? std::make_unique<Events>(c10::Device(id).index())
                                        : nullptr) {}

void LaunchFence::AwaitAll() {
  if (events_ == nullptr) return;
  events_->pending = false;
  c10::cuda::getCurrentCUDAStream(events_->device).synchronize();
}

void LaunchFence::AwaitPrevious() {
  if (events_ == nullptr) return;
  Events& e = *events_;
  const c10::cuda::CUDAGuard guard(e.device);
  C10_CUDA_CHECK(
      cudaEventRecord(e.events[e.next], c10::cuda::getCurrentCUDAStream(e.device).stream()));
  if (std::exchange(e.pending, true)) C10_CUDA_CHECK(cudaEventSynchronize(e.events[1 - e.next]));
  e.next = 1 - e.next;
}

#else

std::shared_ptr<DeviceMemory> NewCudaMemory(const std::string&) { return nullptr; }

struct LaunchFence::Events {};

LaunchFence::LaunchFence(const std::string&) {}
void LaunchFence::AwaitAll() {}
void LaunchFence::AwaitPrevious() {}

#endif

LaunchFence::~LaunchFence() = default;

}  // namespace shoal::model
