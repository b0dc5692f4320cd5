// Sections of bucket codes on a CUDA device. What a lane does is in lane_units.h and lane_groups.h;
// here are the kernels around it: which lane does what, and the largest over lanes.
//
// A unit of buckets in one pass is shared by a tile of lanes, a power of two, so that several small
// ones fill a warp. Everything else is one thread per group of 8 values.

#include "compression/device/codecs/lane_groups.h"
#include "compression/device/codecs/lane_units.h"
#include "compression/device/cuda_ranges.cuh"

namespace shoal::compression {
namespace {

// ---- over the lanes of a warp ----------------------------------------------------------------

__device__ ScaleTry BestOfWarp(ScaleTry tried) {
  for (std::uint32_t by = kWarp / 2; by > 0; by /= 2) {
    ScaleTry other;
    other.error = __shfl_xor_sync(~0U, tried.error, by);
    other.t = __shfl_xor_sync(~0U, tried.t, by);
    other.scale = static_cast<std::uint16_t>(
        __shfl_xor_sync(~0U, static_cast<std::uint32_t>(tried.scale), by));
    tried.Add(other);
  }
  return tried;
}

// ---- kernels ---------------------------------------------------------------------------------

// One pass: reads x (and m) once, writes scale, codes (and next m).
template <int kBuckets, int kGroups, bool kDelta>
__global__ void __launch_bounds__(kThreads) EncodeInRegisters(BucketJob job, std::uint32_t lanes) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t unit = thread / lanes;
  const std::uint32_t lane = thread % lanes;
  const bool active = unit < UnitsOf(job);
  Extremes extremes;
  StripeState<kGroups, kDelta> state;
  UnitRange<kBuckets> range;
  const bool bounds = job.rule.levels() == Levels::kAffine;  // of all lanes
  if (active && bounds) {
    range = LoadLane<kBuckets, true>(job, sample, unit, lane, lanes, state, extremes);
  } else if (active) {
    range = LoadLane<kBuckets, false>(job, sample, unit, lane, lanes, state, extremes);
  }
  for (LaneRange& of : range.of) of = RangeOfTile(of, lanes, bounds);
  if (active) CodeLane(job, sample, unit, lane, lanes, range, state, extremes);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

// First of two passes: a warp per bucket finds its scale.
__global__ void __launch_bounds__(kThreads) FindScales(BucketJob job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t bucket = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const std::uint32_t lane = threadIdx.x % kWarp;
  if (bucket >= job.buckets) return;  // whole warps
  Extremes extremes;
  LaneRange range = RangeOfLane(job, sample, bucket, lane, kWarp, extremes);
  range = RangeOfTile(range, kWarp, job.rule.levels() == Levels::kAffine);
  ScaleBits scale = RangeScale(job.rule, range);
  if (job.rule.scale() == ScaleRule::kOptimal) {
    scale.first = BestOfWarp(TryScale(job, sample, bucket, scale.first, lane)).scale;
  }
  if (lane == 0) StoreScale(job, sample.index, bucket, scale);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

// The passes of a thread per group of 8 values.
template <bool kDelta>
struct EncodeGroups {
  __device__ static void Run(const BucketJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    EncodeGroup<kDelta>(job, sample, group, extremes);
  }
};
template <bool kDelta>
struct DecodeGroups {
  __device__ static void Run(const BucketJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    DecodeGroup<kDelta>(job, sample, group, extremes);
  }
};
// ---- launches --------------------------------------------------------------------------------

template <int kBuckets, int kGroups>
void LaunchInRegisters(const BucketJob& job, cudaStream_t stream) {
  const std::uint32_t lanes = LanesOfUnit(job);
  InParts(job, std::uint64_t{UnitsOf(job)} * lanes, [&](const BucketJob& part, dim3 grid) {
    if (job.delta) {
      EncodeInRegisters<kBuckets, kGroups, true><<<grid, kThreads, 0, stream>>>(part, lanes);
    } else {
      EncodeInRegisters<kBuckets, kGroups, false><<<grid, kThreads, 0, stream>>>(part, lanes);
    }
  });
}

template <int kBuckets>
void LaunchOnePass(const BucketJob& job, cudaStream_t stream) {
  const std::uint32_t groups = GroupsOfLane(job);
  if (groups <= 1) return LaunchInRegisters<kBuckets, 1>(job, stream);
  if (groups <= 2) return LaunchInRegisters<kBuckets, 2>(job, stream);
  if (groups <= 3) return LaunchInRegisters<kBuckets, 3>(job, stream);
  if (groups <= 4) return LaunchInRegisters<kBuckets, 4>(job, stream);
  if (groups <= 5) return LaunchInRegisters<kBuckets, 5>(job, stream);
  if constexpr (kBuckets == 1) {
    if (groups <= 8) return LaunchInRegisters<kBuckets, 8>(job, stream);
    LaunchInRegisters<kBuckets, 16>(job, stream);
  }
}

void Encode(const BucketJob& job, cudaStream_t stream) {
  if (!OnePassJob(job)) {
    InParts(job, std::uint64_t{job.buckets} * kWarp, [&](const BucketJob& part, dim3 grid) {
      FindScales<<<grid, kThreads, 0, stream>>>(part);
    });
    if (job.delta) {
      LaunchGroups<EncodeGroups<true>>(job, stream);
    } else {
      LaunchGroups<EncodeGroups<false>>(job, stream);
    }
    return;
  }
  if (BucketsOfUnit(job.bucket) == 1) {
    LaunchOnePass<1>(job, stream);
  } else {
    LaunchOnePass<2>(job, stream);
  }
}

}  // namespace

void Launch(const BucketJob& job, cudaStream_t stream) {
  if (job.pass == CodingPass::kEncode) return Encode(job, stream);
  if (job.delta) return LaunchGroups<DecodeGroups<true>>(job, stream);
  LaunchGroups<DecodeGroups<false>>(job, stream);
}

}  // namespace shoal::compression
