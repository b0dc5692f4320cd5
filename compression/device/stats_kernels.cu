// CodingStats and ranges on a CUDA device (lane_stats.h).

#include "compression/device/cuda_launch.cuh"
#include "compression/device/lane_stats.h"

namespace shoal::compression {
namespace {

__global__ void __launch_bounds__(kThreads) SumLanes(StatsJob job) {
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t counted = thread / kStatsLanes;
  if (counted >= job.blocks) return;
  const std::size_t at = std::size_t{blockIdx.y} * job.blocks * kStatsLanes + thread;
  job.sums[at] = SumLane(job, job.samples[blockIdx.y], counted, thread % kStatsLanes);
}

__global__ void __launch_bounds__(kThreads) SumTokens(TokenJob job) {
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t token = thread / kStatsLanes;
  if (token >= job.tokens) return;
  const std::size_t at = std::size_t{blockIdx.y} * job.tokens * kStatsLanes + thread;
  job.sums[at] = SumToken(job, job.samples[blockIdx.y], token, thread % kStatsLanes);
}

struct RangeOfGroups {
  __device__ static void Run(const RangeJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    RangeOfGroup(job, sample, group, extremes);
  }
};

}  // namespace

void Launch(const RangeJob& job, cudaStream_t stream) { LaunchGroups<RangeOfGroups>(job, stream); }

void Launch(const StatsJob& job, cudaStream_t stream) {
  InParts(job, std::uint64_t{job.blocks} * kStatsLanes,
          [&](const StatsJob& part, dim3 grid) { SumLanes<<<grid, kThreads, 0, stream>>>(part); });
}

void Launch(const TokenJob& job, cudaStream_t stream) {
  InParts(job, std::uint64_t{job.tokens} * kStatsLanes,
          [&](const TokenJob& part, dim3 grid) { SumTokens<<<grid, kThreads, 0, stream>>>(part); });
}

}  // namespace shoal::compression
