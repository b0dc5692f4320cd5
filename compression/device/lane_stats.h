// CodingStats as lanes of a GPU's warp add them up (lane_values.h), with the additions of the CPU
// in their order. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_LANE_STATS_H_
#define SHOAL_COMPRESSION_DEVICE_LANE_STATS_H_

#include "compression/device/jobs/range_jobs.h"
#include "compression/device/jobs/stats_jobs.h"
#include "compression/device/lane_images.h"

namespace shoal::compression {

// A run of values of a sample that kStatsLanes lanes add up: lane l its values l, l + 8, l + 16,
// ... What is left behind whole rounds of lanes belongs to lane 0.
struct StatsRun {
  std::uint32_t start = 0;
  std::uint32_t count = 0;

  SHOAL_LANE std::uint32_t whole() const { return count / kStatsLanes * kStatsLanes; }
};
// A value and what it is compared with. Without initializers: blocks of threads share arrays of it.
struct LanePair {
  float x;
  float other;
};

// The `counted`-th block that counts; nothing behind the last one.
SHOAL_LANE StatsRun RunOf(const StatsJob& job, const DeviceSample& sample, std::uint32_t counted) {
  if (counted >= job.blocks) return {};
  const std::uint32_t skipped = (job.share - sample.index % job.share) % job.share;
  const std::uint64_t first = std::uint64_t{skipped + counted * job.share} * job.block;
  if (first >= job.values) return {};
  const auto start = static_cast<std::uint32_t>(first);
  const std::uint32_t left = job.values - start;
  return {start, left < job.block ? left : job.block};
}
SHOAL_LANE LanePair PairAt(const StatsJob& job, const DeviceSample& sample,
                           std::uint32_t position) {
  Extremes unused;
  return {sample.x[position], sample.values != nullptr
                                  ? sample.values[position]
                                  : ImageValue(sample.next_m, 16, job.hidden, position, unused)};
}
SHOAL_LANE void AddPair(LanePair pair, LaneSums& sums) {
  const double error = double{pair.x} - double{pair.other};
  sums.values = sums.values + double{pair.x} * double{pair.x};
  sums.errors = sums.errors + error * error;
}

// A token; nothing behind the last one, and in samples without m.
SHOAL_LANE StatsRun RunOf(const TokenJob& job, const DeviceSample& sample, std::uint32_t token) {
  if (token >= job.tokens || sample.m == nullptr) return {};
  return {token * job.hidden, job.hidden};
}
SHOAL_LANE LanePair PairAt(const TokenJob& job, const DeviceSample& sample,
                           std::uint32_t position) {
  Extremes unused;
  return {sample.x[position], ImageValue(sample.m, job.bits, job.hidden, position, unused)};
}
SHOAL_LANE void AddPair(LanePair pair, TokenSums& sums) {
  const float change = pair.x - pair.other;
  sums.values = sums.values + double{pair.x} * double{pair.x};
  sums.change = sums.change + double{change} * double{change};
}

SHOAL_LANE void AddLane(const LaneSums& lane, LaneSums& all) {
  all.values = all.values + lane.values;
  all.errors = all.errors + lane.errors;
}
SHOAL_LANE void AddLane(const TokenSums& lane, TokenSums& all) {
  all.values = all.values + lane.values;
  all.change = all.change + lane.change;
}

// What lane 0 adds to its `sums` after the whole rounds.
template <typename Job, typename Sums>
SHOAL_LANE void AddRest(const Job& job, const DeviceSample& sample, StatsRun run, Sums& sums) {
  for (std::uint32_t i = run.whole(); i < run.count; ++i) {
    AddPair(PairAt(job, sample, run.start + i), sums);
  }
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
