// DeviceQueue on a CUDA device: memory and copies. The kernels of each kind of job are in files of
// their own (cuda_launch.cuh).

#include <cuda_runtime.h>

#include <algorithm>
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
  void Use(void* stream) override { stream_ = static_cast<cudaStream_t>(stream); }

  Result<std::byte*> Allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, std::max(bytes, kSmallest));
    if (error == cudaSuccess) return static_cast<std::byte*>(memory);
    (void)cudaGetLastError();  // else the next launch would report it again
    return ResourceExhausted("device codec: " + std::to_string(bytes) +
                             " bytes of device memory could not be had (" + Reason(error) +
                             "); use smaller micro-batches or the codec on the CPU");
  }
  void Free(std::byte* memory) override { Note(cudaFree(memory)); }

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
    std::visit([&](const auto& kind) { Launch(kind, stream_); }, job);
    Note(cudaGetLastError());
  }

  Status Wait() override {
    Note(cudaStreamSynchronize(stream_));
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

  cudaStream_t stream_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

Result<std::unique_ptr<DeviceQueue>> NewCudaQueue() {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) error = cudaErrorNoDevice;
  if (error == cudaSuccess) {
    // A program without code for this device fails here and not at the first message.
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, Probe);
  }
  if (error == cudaSuccess) return std::unique_ptr<DeviceQueue>(std::make_unique<CudaQueue>());
  (void)cudaGetLastError();
  return Unavailable("device codec: there is no usable CUDA device (" + Reason(error) +
                     "); check the driver with nvidia-smi, or use the codec on the CPU");
}

}  // namespace shoal::compression
