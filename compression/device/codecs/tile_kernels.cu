// Sections of tiles on a CUDA device. What a lane does is in lane_tiles.h; here is what lanes of a
// tile exchange: values for the strides that are wider than a group, ranges, and errors of scales.
//
// One thread per group of 8 values, so tiles of 16 to 128 are 2 to 16 adjacent lanes of a warp: all
// strides of the rotation are done in registers.

#include "compression/device/codecs/lane_tiles.h"
#include "compression/device/cuda_ranges.cuh"

namespace shoal::compression {
namespace {

// Every lane of the warp takes part.
__device__ void RotateOverTile(std::uint32_t tile, float (&y)[kLaneGroup]) {
  for (std::uint32_t by = 1; by < LanesOfTile(tile); by *= 2) {
    float other[kLaneGroup];
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) other[j] = __shfl_xor_sync(~0U, y[j], by);
    RotateOverLanes((threadIdx.x & by) != 0, other, y);
  }
}

// The scale with the least error. Lane after lane adds its part to the error of a scale, each to
// that of another one at a time. Every lane of the warp takes part.
__device__ std::uint16_t BestScaleOfTile(const LevelRule& rule, std::uint16_t largest,
                                         std::uint32_t lanes, const float (&y)[kLaneGroup]) {
  const auto lane = static_cast<int>(threadIdx.x % lanes);
  const int last = static_cast<int>(lanes) - 1;
  ScaleTry best = TryOf(rule, largest, -1, 0);
  float error = 0;
  for (int step = 0; step < LevelRule::kScaleTries + last; ++step) {
    const float before = __shfl_up_sync(~0U, error, 1, static_cast<int>(lanes));
    const int t = step - lane;
    error = AddTryError(rule, largest, t, 0, kLaneGroup, y, lane == 0 ? 0.0F : before);
    best.Add(TryOf(rule, largest, t, error));
  }
  // Only the last lane's errors are those of whole tiles.
  return static_cast<std::uint16_t>(
      __shfl_sync(~0U, static_cast<std::uint32_t>(best.scale), last, static_cast<int>(lanes)));
}

// Tiles of at least a group: finds the scale, unless it is known, then writes codes or the range.
template <bool kTries>
__global__ void __launch_bounds__(kThreads) EncodeTiles(TileJob job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  const bool active = group < job.values / kLaneGroup;
  const std::uint32_t lanes = LanesOfTile(job.bucket);
  const std::uint32_t tile = TileOf(job, group);
  Extremes extremes;
  float y[kLaneGroup] = {};
  if (active) LoadTileGroup(job, sample, group, y, extremes);
  RotateOverTile(job.bucket, y);
  ScaleBits scale;
  if (job.widths == nullptr) {
    const LaneRange range =
        RangeOfTile(RangeOfGroup(y), lanes, job.rule.levels() == Levels::kAffine);
    scale = RangeScale(job.rule, range);
    if constexpr (kTries) scale.first = BestScaleOfTile(job.rule, scale.first, lanes, y);
    if (active && group % lanes == 0) {
      StoreScale(job, sample.index, tile, scale);
      if (job.ranges != nullptr) {
        job.ranges[std::size_t{sample.index} * job.buckets + tile] = WidthRange(job.rule, range);
      }
    }
  } else if (active) {
    scale = LoadScale(job, sample.index, tile);
  }
  if (active && job.ranges == nullptr) CodeTileGroup(job, sample, group, scale, y);
  ReportExtremes(extremes, job.extremes[blockIdx.y]);
}

struct EncodeSmallTiles {
  __device__ static void Run(const TileJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
    float y[kLaneGroup];
    LoadTileGroup(job, sample, group, y, extremes);
    StoreSmallScales(job, sample, group, y);
    CodeSmallTiles(job, sample, group, y);
  }
};

__global__ void __launch_bounds__(kThreads) DecodeTiles(TileJob job) {
  const DeviceSample sample = job.samples[blockIdx.y];
  const std::uint32_t group = blockIdx.x * kThreads + threadIdx.x;
  const bool active = group < (job.values + kLaneGroup - 1) / kLaneGroup;
  float y[kLaneGroup] = {};
  if (active) LoadTileLevels(job, sample, group, y);
  RotateOverTile(job.bucket, y);
  if (active) StoreTileGroup(job, sample, group, y);
}

}  // namespace

void Launch(const TileJob& job, cudaStream_t stream) {
  const bool encode = job.pass == CodingPass::kEncode;
  if (encode && job.bucket < kLaneGroup) return LaunchGroups<EncodeSmallTiles>(job, stream);
  const std::uint64_t threads = (std::uint64_t{job.values} + kLaneGroup - 1) / kLaneGroup;
  InParts(job, threads, [&](const TileJob& part, dim3 grid) {
    if (!encode) {
      DecodeTiles<<<grid, kThreads, 0, stream>>>(part);
    } else if (TriesScales(job.rule)) {
      EncodeTiles<true><<<grid, kThreads, 0, stream>>>(part);
    } else {
      EncodeTiles<false><<<grid, kThreads, 0, stream>>>(part);
    }
  });
}

}  // namespace shoal::compression
