// Sections of topk on a CUDA device. What a thread does is in lane_select.h and lane_kept.h; here
// are the counters, the sums over threads and the grids.
//
// Selecting reads the values five times, of a size that the cache of the device often holds: three
// times for the digits of the least kept magnitude, once to count runs, once to keep. A warp is a
// run of 256 values.

#include "compression/device/codecs/lane_kept.h"
#include "compression/device/codecs/lane_select.h"
#include "compression/device/cuda_launch.cuh"

namespace shoal::compression {
namespace {

static_assert(kRunValues == kWarp * kLaneGroup && kThreads % kWarp == 0);

constexpr std::uint32_t kScanThreads = 512;    // of a block that adds up one sample's counts
constexpr std::uint32_t kGroupsOfThread = 16;  // while counting, so that counters pay

// ---- sums over threads -----------------------------------------------------------------------

// The sum over the lanes in front. Every lane of the warp takes part.
__device__ std::uint64_t BeforeInWarp(std::uint64_t mine) {
  std::uint64_t sum = mine;
  for (std::uint32_t by = 1; by < kWarp; by *= 2) {
    const std::uint64_t other = __shfl_up_sync(~0U, sum, by);
    if (threadIdx.x % kWarp >= by) sum += other;
  }
  return sum - mine;
}

// The sum over the threads in front in a block of kScanThreads, all of which take part, once.
__device__ std::uint64_t BeforeInBlock(std::uint64_t mine) {
  __shared__ std::uint64_t of_warps[kScanThreads / kWarp];
  std::uint64_t before = BeforeInWarp(mine);
  const std::uint32_t warp = threadIdx.x / kWarp;
  if (threadIdx.x % kWarp == kWarp - 1) of_warps[warp] = before + mine;
  __syncthreads();
  for (std::uint32_t w = 0; w < warp; ++w) before += of_warps[w];
  return before;
}

// ---- selection -------------------------------------------------------------------------------

__device__ std::uint32_t* CountersOf(const SelectJob& job, int level) {
  return job.counters + blockIdx.y * kDigitCounters + DigitStart(level);
}

template <int kLevel>
__global__ void __launch_bounds__(kThreads) CountDigitsOfBlock(SelectJob job) {
  constexpr std::uint32_t kDigits = DigitsOfLevel(kLevel);
  __shared__ std::uint32_t counters[kDigits];
  for (std::uint32_t d = threadIdx.x; d < kDigits; d += kThreads) counters[d] = 0;
  __syncthreads();
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t upper = kLevel == 0 ? 0 : job.least[blockIdx.y].bits;
  const std::uint32_t groups = (job.values + kLaneGroup - 1) / kLaneGroup;
  const std::uint32_t first = blockIdx.x * kThreads * kGroupsOfThread + threadIdx.x;
  Extremes extremes;
  for (std::uint32_t i = 0; i < kGroupsOfThread; ++i) {
    const std::uint32_t group = first + i * kThreads;
    if (group >= groups) break;
    CountDigits(job, sample, group, kLevel, upper, extremes,
                [&](std::uint32_t digit) { atomicAdd(&counters[digit], 1U); });
  }
  if (kLevel == 0) ReportExtremes(extremes, job.extremes[blockIdx.y]);
  __syncthreads();
  std::uint32_t* const to = CountersOf(job, kLevel);
  for (std::uint32_t d = threadIdx.x; d < kDigits; d += kThreads) {
    if (counters[d] != 0) atomicAdd(&to[d], counters[d]);
  }
}

template <int kLevel>
__global__ void __launch_bounds__(kScanThreads) ChooseDigitOfSample(SelectJob job) {
  LeastKept least{0, job.kept};
  if (kLevel > 0) least = job.least[blockIdx.y];
  const std::uint32_t* const counters = CountersOf(job, kLevel);
  const DigitRange range = DigitsOfThread(kLevel, threadIdx.x, kScanThreads);
  const std::uint64_t before = BeforeInBlock(CountOfDigits(counters, range));
  if (ChooseDigit(counters, range, kLevel, static_cast<std::uint32_t>(before), least)) {
    job.least[blockIdx.y] = least;  // one thread of the block; all have read it
  }
}

__global__ void __launch_bounds__(kThreads) CountRuns(SelectJob job) {
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  const std::size_t run = group / kWarp;
  const std::size_t runs = RunsOf(job.values);
  if (run >= runs) return;  // whole warps
  const GroupClasses classes =
      CountGroup(job, job.samples[blockIdx.y], group, job.least[blockIdx.y].bits);
  const std::uint64_t mine = classes.Counts();
  const std::uint64_t before = BeforeInWarp(mine);
  if (threadIdx.x % kWarp == kWarp - 1) job.before[blockIdx.y * runs + run] = before + mine;
}

__global__ void __launch_bounds__(kScanThreads) SumRuns(SelectJob job) {
  std::uint64_t* const counts = job.before + blockIdx.y * RunsOf(job.values);
  const RunRange range = RunsOfThread(job, threadIdx.x, kScanThreads);
  StoreSumsOfRuns(counts, range, BeforeInBlock(SumOfRuns(counts, range)));
}

__global__ void __launch_bounds__(kThreads) KeepRuns(SelectJob job) {
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  const std::size_t run = group / kWarp;
  const std::size_t runs = RunsOf(job.values);
  if (run >= runs) return;  // whole warps
  const DeviceSample sample = job.samples[blockIdx.y];
  const LeastKept least = job.least[blockIdx.y];
  const std::uint64_t in_run = BeforeInWarp(CountGroup(job, sample, group, least.bits).Counts());
  KeepGroup(job, sample, group, least, job.before[blockIdx.y * runs + run] + in_run);
}

// ---- codes -----------------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads) ScalesOfKept(KeptJob job) {
  const std::size_t bucket = (std::size_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (bucket >= std::size_t{job.count} * BucketsOfKept(job)) return;  // whole warps
  const std::uint32_t most = LargestOfWarp(MostOfKept(job, bucket, threadIdx.x % kWarp, kWarp));
  if (threadIdx.x % kWarp == 0) StoreKeptScale(job, bucket, most);
}

__global__ void __launch_bounds__(kThreads) CodesOfKept(KeptJob job) {
  const std::size_t group = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (group < GroupsOfKept(job)) CodeKeptGroup(job, group);
}

__global__ void __launch_bounds__(kThreads) DecodeKept(KeptJob job) {
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  if (group >= (job.values + kLaneGroup - 1) / kLaneGroup) return;
  DecodeKeptGroup(job, job.samples[blockIdx.y], group);
}

std::uint32_t BlocksFor(std::size_t threads) {
  return static_cast<std::uint32_t>((threads + kThreads - 1) / kThreads);
}

template <int kLevel>
void FindDigit(const SelectJob& job, cudaStream_t stream) {
  const std::size_t groups = (std::size_t{job.values} + kLaneGroup - 1) / kLaneGroup;
  const std::size_t threads = (groups + kGroupsOfThread - 1) / kGroupsOfThread;
  const dim3 grid(BlocksFor(threads), job.count);
  CountDigitsOfBlock<kLevel><<<grid, kThreads, 0, stream>>>(job);
  ChooseDigitOfSample<kLevel><<<dim3(1, job.count), kScanThreads, 0, stream>>>(job);
}

}  // namespace

void Launch(const SelectJob& job, cudaStream_t stream) {
  static_assert(kSelectedAtOnce <= kSamplesAtOnce);
  FindDigit<0>(job, stream);
  FindDigit<1>(job, stream);
  FindDigit<2>(job, stream);
  const dim3 grid(BlocksFor(RunsOf(job.values) * kWarp), job.count);
  CountRuns<<<grid, kThreads, 0, stream>>>(job);
  SumRuns<<<dim3(1, job.count), kScanThreads, 0, stream>>>(job);
  KeepRuns<<<grid, kThreads, 0, stream>>>(job);
}

void Launch(const KeptJob& job, cudaStream_t stream) {
  if (job.pass == CodingPass::kDecode) {
    const std::uint64_t threads = (std::uint64_t{job.values} + kLaneGroup - 1) / kLaneGroup;
    return InParts(job, threads, [&](const KeptJob& part, dim3 grid) {
      DecodeKept<<<grid, kThreads, 0, stream>>>(part);
    });
  }
  const std::size_t buckets = std::size_t{job.count} * BucketsOfKept(job);
  ScalesOfKept<<<BlocksFor(buckets * kWarp), kThreads, 0, stream>>>(job);
  CodesOfKept<<<BlocksFor(GroupsOfKept(job)), kThreads, 0, stream>>>(job);
}

}  // namespace shoal::compression
