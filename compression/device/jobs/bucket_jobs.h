// What a device is asked to do with sections of bucket codes. A job is a plain structure that
// kernels take by value; all pointers are device memory. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_BUCKET_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_BUCKET_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/device_sample.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {

// A section of bucket codes. With `delta` what is coded is x - m, and decoding makes
// next_m = m + level; without it, level itself.
struct BucketJob {
  CodingPass pass = CodingPass::kEncode;
  LevelRule rule{1, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest};
  bool delta = false;
  std::uint32_t bucket = 0;
  std::uint32_t values = 0;   // of a sample, below 2^31
  std::uint32_t buckets = 0;  // of a sample
  std::uint32_t key[2] = {};  // MessageKeyWords, for stochastic rounding
  std::uint32_t count = 0;    // samples of this job
  const DeviceSample* samples = nullptr;
  std::byte* scales = nullptr;   // of the whole section
  std::byte* codes = nullptr;    // packed, of the whole section
  Extremes* extremes = nullptr;  // one per sample of this job
};

// What lanes of a warp hold in registers is a unit: one bucket whose codes fill whole groups of 8,
// or two that share a group (a bucket of 100).
inline constexpr std::uint32_t kUnitMax = 4096;  // values
inline constexpr std::uint32_t kSharedUnitMax = 1024;
constexpr std::uint32_t BucketsOfUnit(std::uint32_t bucket) { return bucket % 8 == 0 ? 1 : 2; }

// One pass over the values; otherwise one for the scales and one for the codes. Noise takes the
// registers that a unit needs, and more time than the memory.
constexpr bool OnePassJob(const BucketJob& job) {
  if (job.rule.scale() != ScaleRule::kAbsMax || job.bucket % 4 != 0) return false;
  if (job.rule.rounding() != Rounding::kNearest) return false;
  return job.bucket <= (job.bucket % 8 == 0 ? kUnitMax : kSharedUnitMax / 2);
}
constexpr std::uint32_t UnitsOf(const BucketJob& job) {
  const std::uint32_t buckets = BucketsOfUnit(job.bucket);
  return (job.buckets + buckets - 1) / buckets;
}
constexpr std::uint32_t GroupsOfUnit(std::uint32_t bucket) {
  return bucket * BucketsOfUnit(bucket) / 8;
}
constexpr std::uint32_t GroupsOfLanes(std::uint32_t groups, std::uint32_t lanes) {
  return (groups + lanes - 1) / lanes;
}
// Lanes that share a unit, a power of two, and how many groups of 8 adjacent values each has. Among
// those that leave the fewest lanes without a group at any time, the most: 20 groups of a bucket of
// 160 keep 4 lanes busy five times, but of 32 lanes 12 would idle. Groups of 5 and 7 bytes are
// stored byte by byte, which takes longer than what is gained unless neighbours fill whole lines:
// the most lanes.
constexpr std::uint32_t LanesOfUnit(std::uint32_t bucket, int bits) {
  constexpr std::uint32_t kFewest = 4, kGroupsMost = 5;  // lanes read whole lines; registers
  const std::uint32_t groups = GroupsOfUnit(bucket);
  std::uint32_t best = 1;
  while (best < 32 && best < groups) best *= 2;
  if (bits == 5 || bits == 7) return best;
  for (std::uint32_t lanes = best / 2; lanes >= kFewest; lanes /= 2) {
    const std::uint32_t of_lane = GroupsOfLanes(groups, lanes);
    if (of_lane > kGroupsMost) break;
    if (of_lane * lanes < GroupsOfLanes(groups, best) * best) best = lanes;
  }
  return best;
}
constexpr std::uint32_t LanesOfUnit(const BucketJob& job) {
  return LanesOfUnit(job.bucket, job.rule.bits());
}
constexpr std::uint32_t GroupsOfLane(const BucketJob& job) {
  return GroupsOfLanes(GroupsOfUnit(job.bucket), LanesOfUnit(job));
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_BUCKET_JOBS_H_
