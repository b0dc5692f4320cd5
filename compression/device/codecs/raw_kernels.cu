// Sections of plain values on a CUDA device (lane_raw.h).

#include "compression/device/codecs/lane_raw.h"
#include "compression/device/cuda_launch.cuh"

namespace shoal::compression {
namespace {

struct EncodeRawGroups {
  __device__ static void Run(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    EncodeRawGroup(job, sample, group, extremes);
  }
};
struct DecodeRawGroups {
  __device__ static void Run(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    DecodeRawGroup(job, sample, group, extremes);
  }
};

}  // namespace

void Launch(const RawJob& job, cudaStream_t stream) {
  if (job.pass == CodingPass::kEncode) return LaunchGroups<EncodeRawGroups>(job, stream);
  LaunchGroups<DecodeRawGroups>(job, stream);
}

}  // namespace shoal::compression
