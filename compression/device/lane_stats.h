// CodingStats as lanes of a GPU's warp add them up (lane_values.h), with the additions of the CPU
// in their order. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_LANE_STATS_H_
#define SHOAL_COMPRESSION_DEVICE_LANE_STATS_H_

#include "compression/device/jobs/range_jobs.h"
#include "compression/device/jobs/stats_jobs.h"
#include "compression/device/lane_images.h"

namespace shoal::compression {

SHOAL_LANE void AddSquares(const StatsJob& job, const DeviceSample& sample, std::uint32_t position,
                           LaneSums& sums) {
  Extremes unused;
  const float x = sample.x[position];
  const float decoded = sample.values != nullptr
                            ? sample.values[position]
                            : ImageValue(sample.next_m, 16, job.hidden, position, unused);
  const double error = double{x} - double{decoded};
  sums.values = sums.values + double{x} * double{x};
  sums.errors = sums.errors + error * error;
}

// The part of lane `lane` of the `counted`-th block that counts. What is left of a block behind
// whole rounds of lanes belongs to lane 0.
SHOAL_LANE LaneSums SumLane(const StatsJob& job, const DeviceSample& sample, std::uint32_t counted,
                            std::uint32_t lane) {
  LaneSums sums;
  const std::uint32_t skipped = (job.share - sample.index % job.share) % job.share;
  const std::uint64_t first = std::uint64_t{skipped + counted * job.share} * job.block;
  if (first >= job.values) return sums;
  const auto start = static_cast<std::uint32_t>(first);
  const std::uint32_t left = job.values - start;
  const std::uint32_t count = left < job.block ? left : job.block;
  const std::uint32_t whole = count / kStatsLanes * kStatsLanes;
  for (std::uint32_t i = lane; i < whole; i += kStatsLanes) {
    AddSquares(job, sample, start + i, sums);
  }
  for (std::uint32_t i = whole; lane == 0 && i < count; ++i) {
    AddSquares(job, sample, start + i, sums);
  }
  return sums;
}

SHOAL_LANE void AddChange(const TokenJob& job, const DeviceSample& sample, std::uint32_t position,
                          TokenSums& sums) {
  Extremes unused;
  const float x = sample.x[position];
  const float change = x - ImageValue(sample.m, job.bits, job.hidden, position, unused);
  sums.values = sums.values + double{x} * double{x};
  sums.change = sums.change + double{change} * double{change};
}

// The part of lane `lane` of a token, as SumLane has those of a block.
SHOAL_LANE TokenSums SumToken(const TokenJob& job, const DeviceSample& sample, std::uint32_t token,
                              std::uint32_t lane) {
  TokenSums sums;
  if (sample.m == nullptr) return sums;
  const std::uint32_t start = token * job.hidden;
  const std::uint32_t whole = job.hidden / kStatsLanes * kStatsLanes;
  for (std::uint32_t i = lane; i < whole; i += kStatsLanes) {
    AddChange(job, sample, start + i, sums);
  }
  for (std::uint32_t i = whole; lane == 0 && i < job.hidden; ++i) {
    AddChange(job, sample, start + i, sums);
  }
  return sums;
}

// Eight values of a sample.
SHOAL_LANE void RangeOfGroup(const RangeJob& job, const DeviceSample& sample, std::uint32_t group,
                             Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  float x[kLaneGroup] = {};
  LoadFloats(sample.x + position, GroupCount(job.values, position), x);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) Raise(extremes.x, MagnitudeBits(x[j]));
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_LANE_STATS_H_
