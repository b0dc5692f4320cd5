// Jobs of tiles as loops on the host (host_lanes.h): the lanes of a tile run one after the other
// between their exchanges.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TILE_LANES_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TILE_LANES_H_

#include <algorithm>
#include <array>
#include <vector>

#include "compression/device/codecs/lane_tiles.h"
#include "tests/unit/compression/device/host_lanes.h"

namespace shoal::compression {

struct TileLaneOnHost {
  float y[kLaneGroup];
};
using TileLanesOnHost = std::vector<TileLaneOnHost>;

inline void RotateOverTileOnHost(TileLanesOnHost& lanes) {
  for (std::size_t by = 1; by < lanes.size(); by *= 2) {
    const TileLanesOnHost before = lanes;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      RotateOverLanes((lane & by) != 0, before[lane ^ by].y, lanes[lane].y);
    }
  }
}

inline ScaleBits ScaleOfTileOnHost(const LevelRule& rule, const TileLanesOnHost& lanes,
                                   float* measured) {
  LaneRange range;
  for (const TileLaneOnHost& lane : lanes) range.Add(RangeOfGroup(lane.y));
  *measured = WidthRange(rule, range);
  ScaleBits scale = RangeScale(rule, range);
  if (!TriesScales(rule)) return scale;
  ScaleTry best = TryOf(rule, scale.first, -1, 0);
  for (int t = LevelRule::kScaleTries; t-- > 0;) {
    float error = 0;
    for (const TileLaneOnHost& lane : lanes) {
      error = AddTryError(rule, scale.first, t, 0, kLaneGroup, lane.y, error);
    }
    best.Add(TryOf(rule, scale.first, t, error));
  }
  scale.first = best.scale;
  return scale;
}

// The groups from `first` on that share a tile.
inline void EncodeTileOnHost(const TileJob& job, const DeviceSample& sample, std::uint32_t first,
                             TileLanesOnHost& lanes) {
  ScaleBits scale;
  if (job.widths == nullptr) {
    float measured = 0;
    scale = ScaleOfTileOnHost(job.rule, lanes, &measured);
    StoreScale(job, sample.index, TileOf(job, first), scale);
    if (job.ranges != nullptr) {
      job.ranges[std::size_t{sample.index} * job.buckets + TileOf(job, first)] = measured;
      return;
    }
  } else {
    scale = LoadScale(job, sample.index, TileOf(job, first));
  }
  for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
    CodeTileGroup(job, sample, first + lane, scale, lanes[lane].y);
  }
}

inline void RunOnHost(const TileJob& job) {
  const std::uint32_t groups = (job.values + kLaneGroup - 1) / kLaneGroup;
  TileLanesOnHost lanes(LanesOfTile(job.bucket));
  for (std::uint32_t s = 0; s < job.count; ++s) {
    const DeviceSample& sample = job.samples[s];
    for (std::uint32_t first = 0; first < groups; first += LanesOfTile(job.bucket)) {
      Extremes extremes;
      const bool encode = job.pass == CodingPass::kEncode;
      for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
        encode ? LoadTileGroup(job, sample, first + lane, lanes[lane].y, extremes)
               : LoadTileLevels(job, sample, first + lane, lanes[lane].y);
      }
      RotateOverTileOnHost(lanes);
      if (!encode) {
        for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
          StoreTileGroup(job, sample, first + lane, lanes[lane].y);
        }
      } else if (job.bucket < kLaneGroup) {
        StoreSmallScales(job, sample, first, lanes[0].y);
        CodeSmallTiles(job, sample, first, lanes[0].y);
      } else {
        EncodeTileOnHost(job, sample, first, lanes);
      }
      ReportOnHost(extremes, job.extremes[s]);
    }
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TILE_LANES_H_
