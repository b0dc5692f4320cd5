// Factors per channel on a CUDA device (lane_scale.h).

#include "compression/device/codecs/lane_scale.h"
#include "compression/device/cuda_launch.cuh"

namespace shoal::compression {
namespace {

struct ScaleGroups {
  __device__ static void Run(const ScaleJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes&) {
    ScaleGroup(job, sample, group);
  }
};

}  // namespace

void Launch(const ScaleJob& job, cudaStream_t stream) { LaunchGroups<ScaleGroups>(job, stream); }

}  // namespace shoal::compression
