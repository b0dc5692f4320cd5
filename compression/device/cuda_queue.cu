// DeviceQueue on a CUDA device: memory and copies. The kernels of each kind of job are in files of
// their own (cuda_launch.cuh).

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "compression/device/cuda_launch.cuh"
#include "compression/device/device_queue.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kSmallest = 256;

std::string Reason(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
}

// Of no use but to be asked about.
__global__ void Probe() {}

class CudaQueue : public DeviceQueue {
 public:
  CudaQueue() = default;
  // `own`: a stream, which becomes the queue's.
  CudaQueue(std::shared_ptr<DeviceMemory> memory, cudaStream_t own)
      : memory_(std::move(memory)), own_(own), stream_(own) {
    Note(cudaEventCreate(&first_));
    Note(cudaEventCreate(&last_));
  }
  ~CudaQueue() override {
    if (own_ == nullptr) return;
    (void)cudaSetDevice(memory_->device());
    for (const cudaEvent_t event : {first_, last_}) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
    (void)cudaStreamDestroy(own_);
  }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void Use(void* stream) override {
    // The current device is one of the thread.
    if (memory_ != nullptr) Note(cudaSetDevice(memory_->device()));
    stream_ = stream != nullptr ? static_cast<cudaStream_t>(stream) : own_;
  }
  void* stream() const override { return stream_; }

  Result<std::byte*> Allocate(std::size_t bytes) override {
    if (memory_ != nullptr) return AllocateThere(std::max(bytes, kSmallest));
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, std::max(bytes, kSmallest));
    if (error == cudaSuccess) return static_cast<std::byte*>(memory);
    (void)cudaGetLastError();  // else the next launch would report it again
    return ResourceExhausted("device codec: " + std::to_string(bytes) +
                             " bytes of device memory could not be had (" + Reason(error) +
                             "); use smaller micro-batches or the codec on the CPU");
  }
  void Free(std::byte* memory) override {
    if (memory_ == nullptr) return Note(cudaFree(memory));
    Note(cudaSetDevice(memory_->device()));
    // Others may get it at once.
    Note(cudaStreamSynchronize(stream_));
    const auto allocated = sizes_.find(memory);
    memory_->Free(memory, allocated->second);
    sizes_.erase(allocated);
  }
  Result<std::byte*> AllocateHost(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMallocHost(&memory, std::max(bytes, kSmallest));
    if (error == cudaSuccess) return static_cast<std::byte*>(memory);
    (void)cudaGetLastError();
    return ResourceExhausted("device codec: " + std::to_string(bytes) +
                             " bytes of page-locked memory could not be had (" + Reason(error) +
                             "); raise the limit of locked memory, or use smaller micro-batches");
  }
  void FreeHost(std::byte* memory) override {
    // On another device the call would start a context there.
    if (memory_ != nullptr) Note(cudaSetDevice(memory_->device()));
    Note(cudaFreeHost(memory));
  }

  void ToDevice(std::byte* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  }
  void ToHost(void* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
  }
  void Zero(std::byte* at, std::size_t bytes) override {
    if (bytes > 0) Note(cudaMemsetAsync(at, 0, bytes, stream_));
  }

  void Run(const DeviceJob& job) override {
    if (first_ != nullptr && !std::exchange(running_, true)) Note(cudaEventRecord(first_, stream_));
    std::visit([&](const auto& kind) { Launch(kind, stream_); }, job);
    Note(cudaGetLastError());
    if (last_ != nullptr) Note(cudaEventRecord(last_, stream_));
  }
  double busy_ms() const override { return busy_ms_; }

  Status Wait() override {
    Note(cudaStreamSynchronize(stream_));
    if (std::exchange(running_, false) && error_ == cudaSuccess) {
      float elapsed_ms = 0;
      Note(cudaEventElapsedTime(&elapsed_ms, first_, last_));
      busy_ms_ += elapsed_ms;
    }
    const cudaError_t error = std::exchange(error_, cudaSuccess);
    if (error == cudaSuccess) return Status::Ok();
    return Internal("device codec: the CUDA device failed (" + Reason(error) +
                    "); restart the program, or use the codec on the CPU");
  }

 private:
  // Keeps the first error for Wait.
  void Note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  Result<std::byte*> AllocateThere(std::size_t bytes) {
    SHOAL_ASSIGN_OR_RETURN(std::byte* const memory, memory_->Allocate(bytes));
    sizes_[memory] = bytes;
    return memory;
  }

  const std::shared_ptr<DeviceMemory> memory_;  // null: the runtime's
  const cudaStream_t own_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::map<std::byte*, std::size_t> sizes_;  // of what memory_ gave
  // With a stream of its own: around the jobs since the last Wait, if there are any.
  cudaEvent_t first_ = nullptr, last_ = nullptr;
  bool running_ = false;
  double busy_ms_ = 0;
  cudaError_t error_ = cudaSuccess;
};

// Of the current device.
Status CheckUsable() {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) error = cudaErrorNoDevice;
  if (error == cudaSuccess) {
    // A program without code for this device fails here and not at the first message.
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, Probe);
  }
  if (error == cudaSuccess) return Status::Ok();
  (void)cudaGetLastError();
  return Unavailable("device codec: there is no usable CUDA device (" + Reason(error) +
                     "); check the driver with nvidia-smi, or use the codec on the CPU");
}

}  // namespace

Result<std::unique_ptr<DeviceQueue>> NewCudaQueue() {
  SHOAL_RETURN_IF_ERROR(CheckUsable());
  return std::unique_ptr<DeviceQueue>(std::make_unique<CudaQueue>());
}

Result<std::unique_ptr<DeviceQueue>> NewCudaQueue(std::shared_ptr<DeviceMemory> memory) {
  cudaStream_t stream = nullptr;
  (void)cudaSetDevice(memory->device());
  SHOAL_RETURN_IF_ERROR(CheckUsable());
  // It awaits nothing of the default stream, on which the stage computes.
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    return ResourceExhausted("device codec: no stream could be had (" + Reason(error) + ")");
  }
  return std::unique_ptr<DeviceQueue>(std::make_unique<CudaQueue>(std::move(memory), stream));
}

}  // namespace shoal::compression
