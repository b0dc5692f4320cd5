// m images on a CUDA device (lane_images.h).

#include "compression/cuda/cuda_launch.cuh"
#include "compression/lane_images.h"

namespace shoal::compression {
namespace {

struct StoreImageGroups {
  __device__ static void Run(const ImageJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    StoreImageGroup(job, sample, group, extremes);
  }
};
struct LoadImageGroups {
  __device__ static void Run(const ImageJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes&) {
    LoadImageGroup(job, sample, group);
  }
};

}  // namespace

void Launch(const ImageJob& job, cudaStream_t stream) {
  switch (job.pass) {
    case ImagePass::kStore: return LaunchGroups<StoreImageGroups>(job, stream);
    case ImagePass::kLoad: return LaunchGroups<LoadImageGroups>(job, stream);
  }
}

}  // namespace shoal::compression
