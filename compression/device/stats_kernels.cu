// CodingStats and ranges on a CUDA device (lane_stats.h).

#include "compression/device/cuda_launch.cuh"
#include "compression/device/lane_stats.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kRunsOfWarp = kWarp / kStatsLanes;
constexpr std::uint32_t kTile = 128;  // values of a run that a warp loads at once
// Lanes of different runs read at the same time: from different banks.
constexpr std::uint32_t kTileStride = kTile + kStatsLanes;

__device__ LaneSums FromLane(const LaneSums& sums, std::uint32_t lane) {
  return {__shfl_sync(~0U, sums.values, lane), __shfl_sync(~0U, sums.errors, lane)};
}
__device__ TokenSums FromLane(const TokenSums& sums, std::uint32_t lane) {
  return {__shfl_sync(~0U, sums.values, lane), __shfl_sync(~0U, sums.change, lane)};
}

// Each warp adds up kRunsOfWarp runs of sample blockIdx.y. An addition waits for the one before, in
// the order of the CPU; so that no load does, too, the warp first loads a piece of its runs, every
// lane as many values as fit its registers.
template <typename Job, typename Sums>
__device__ void SumRuns(const Job& job, std::uint32_t runs, Sums* out) {
  __shared__ LanePair tiles[kThreads / kWarp][kRunsOfWarp * kTileStride];
  LanePair* const tile = tiles[threadIdx.x / kWarp];
  const std::uint32_t lane = threadIdx.x % kWarp, place = lane % kStatsLanes;
  const std::uint32_t number = (blockIdx.x * kThreads + threadIdx.x) / kStatsLanes;
  const DeviceSample sample = job.samples[blockIdx.y];
  const StatsRun run = RunOf(job, sample, number);
  std::uint32_t longest = run.whole();
  for (std::uint32_t by = kWarp / 2; by > 0; by /= 2) {
    longest = max(longest, __shfl_xor_sync(~0U, longest, by));
  }
  Sums sums;
  for (std::uint32_t first = 0; first < longest; first += kTile) {
    LanePair loaded[kRunsOfWarp][kTile / kWarp];
#pragma unroll
    for (std::uint32_t r = 0; r < kRunsOfWarp; ++r) {
      const std::uint32_t start = __shfl_sync(~0U, run.start, r * kStatsLanes);
      const std::uint32_t whole = __shfl_sync(~0U, run.whole(), r * kStatsLanes);
#pragma unroll
      for (std::uint32_t i = 0; i < kTile / kWarp; ++i) {
        const std::uint32_t at = first + i * kWarp + lane;
        loaded[r][i] = at < whole ? PairAt(job, sample, start + at) : LanePair{};
      }
    }
#pragma unroll
    for (std::uint32_t r = 0; r < kRunsOfWarp; ++r) {
#pragma unroll
      for (std::uint32_t i = 0; i < kTile / kWarp; ++i) {
        tile[r * kTileStride + i * kWarp + lane] = loaded[r][i];
      }
    }
    __syncwarp();
    const LanePair* const mine = tile + lane / kStatsLanes * kTileStride + place;
    const std::uint32_t end = run.whole() > first ? min(run.whole() - first, kTile) : 0;
    for (std::uint32_t i = 0; i < end; i += kStatsLanes) AddPair(mine[i], sums);
    __syncwarp();
  }
  if (place == 0) AddRest(job, sample, run, sums);
  Sums all;
  for (std::uint32_t of = 0; of < kStatsLanes; ++of) {
    AddLane(FromLane(sums, lane / kStatsLanes * kStatsLanes + of), all);
  }
  if (place == 0 && number < runs) out[std::size_t{blockIdx.y} * runs + number] = all;
}

__global__ void __launch_bounds__(kThreads) SumLanes(StatsJob job) {
  SumRuns(job, job.blocks, job.sums);
}

__global__ void __launch_bounds__(kThreads) SumTokens(TokenJob job) {
  SumRuns(job, job.tokens, job.sums);
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
