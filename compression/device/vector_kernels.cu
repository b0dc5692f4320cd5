// Vectors on a CUDA device (lane_vectors.h), a thread per value.

#include "compression/device/cuda_launch.cuh"
#include "compression/device/lane_vectors.h"

namespace shoal::compression {
namespace {

__global__ void __launch_bounds__(kThreads) UpdateValues(VectorJob job) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < job.count) UpdateValue(job, i);
}

}  // namespace

void Launch(const VectorJob& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((job.count + kThreads - 1) / kThreads);
  if (blocks > 0) UpdateValues<<<blocks, kThreads, 0, stream>>>(job);
}

}  // namespace shoal::compression
