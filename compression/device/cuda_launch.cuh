// What the kernels of all kinds of jobs share: the largest over lanes, grids, and passes with a
// thread per group of 8 values. blockIdx.y counts samples.
//
// A kind of job has a file NAME_kernels.cu, which defines its Launch. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CUDA_LAUNCH_CUH_
#define SHOAL_COMPRESSION_DEVICE_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "compression/device/jobs/device_jobs.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

// Asks for all passes of a job, in the order of the stream; errors show in cudaGetLastError.
void Launch(const BucketJob& job, cudaStream_t stream);
void Launch(const ChannelJob& job, cudaStream_t stream);
void Launch(const ChannelRangeJob& job, cudaStream_t stream);
void Launch(const ChannelTryJob& job, cudaStream_t stream);
void Launch(const DitherJob& job, cudaStream_t stream);
void Launch(const EnergyJob& job, cudaStream_t stream);
void Launch(const EscapeJob& job, cudaStream_t stream);
void Launch(const ImageJob& job, cudaStream_t stream);
void Launch(const KeptJob& job, cudaStream_t stream);
void Launch(const LookJob& job, cudaStream_t stream);
void Launch(const RangeJob& job, cudaStream_t stream);
void Launch(const RawJob& job, cudaStream_t stream);
void Launch(const ScaleJob& job, cudaStream_t stream);
void Launch(const SelectJob& job, cudaStream_t stream);
void Launch(const StatsJob& job, cudaStream_t stream);
void Launch(const TileJob& job, cudaStream_t stream);
void Launch(const TokenJob& job, cudaStream_t stream);
void Launch(const TurnJob& job, cudaStream_t stream);
void Launch(const VectorJob& job, cudaStream_t stream);

inline constexpr std::uint32_t kThreads = 128;
inline constexpr std::uint32_t kWarp = 32;
inline constexpr std::uint32_t kSamplesAtOnce = 32768;  // of a launch; blockIdx.y is below 2^16

// ---- over the lanes of a warp ----------------------------------------------------------------

__device__ inline std::uint32_t LargestOfWarp(std::uint32_t value) {
  for (int by = kWarp / 2; by > 0; by /= 2) Raise(value, __shfl_xor_sync(~0U, value, by));
  return value;
}

__device__ inline void RaiseAtomically(std::uint32_t& most, std::uint32_t value) {
  if (value > __ldcg(&most)) atomicMax(&most, value);
}

// Every lane of the warp takes part.
__device__ inline void ReportExtremes(const Extremes& seen, Extremes& all) {
  const Extremes most{LargestOfWarp(seen.x), LargestOfWarp(seen.m), LargestOfWarp(seen.sum)};
  if (threadIdx.x % kWarp != 0) return;
  RaiseAtomically(all.x, most.x);
  RaiseAtomically(all.m, most.m);
  RaiseAtomically(all.sum, most.sum);
}

// ---- launches --------------------------------------------------------------------------------

// Moves what a job has per sample beyond `samples` and `extremes`.
template <typename Job>
void SkipSamples(Job&, std::uint32_t) {}
inline void SkipSamples(ImageJob& job, std::uint32_t count) {
  if (job.columns != nullptr) job.columns += std::size_t{count} * job.hidden;
}
inline void SkipSamples(StatsJob& job, std::uint32_t count) {
  job.sums += std::size_t{count} * job.blocks;
}
inline void SkipSamples(TokenJob& job, std::uint32_t count) {
  job.sums += std::size_t{count} * job.tokens;
}

// Calls launch(job, grid) for the samples of a job, as many at once as a grid takes.
template <typename Job, typename LaunchPart>
void InParts(Job job, std::uint64_t threads, const LaunchPart& launch) {
  const auto blocks = static_cast<std::uint32_t>((threads + kThreads - 1) / kThreads);
  for (std::uint32_t left = job.count; left > 0 && blocks > 0;) {
    job.count = std::min(left, kSamplesAtOnce);
    launch(job, dim3(blocks, job.count));
    left -= job.count;
    job.samples += job.count;
    job.extremes += job.count;
    SkipSamples(job, job.count);
  }
}

// Pass::Run(job, sample, group, extremes) for every group of 8 values of every sample.
template <typename Pass, typename Job>
__global__ void __launch_bounds__(kThreads) OverGroups(Job job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  Extremes extremes;
  if (group < (job.values + kLaneGroup - 1) / kLaneGroup) Pass::Run(job, sample, group, extremes);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

template <typename Pass, typename Job>
void LaunchGroups(const Job& job, cudaStream_t stream) {
  InParts(
      job, (std::uint64_t{job.values} + kLaneGroup - 1) / kLaneGroup,
      [&](const Job& part, dim3 grid) { OverGroups<Pass><<<grid, kThreads, 0, stream>>>(part); });
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CUDA_LAUNCH_CUH_
