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
// Lanes that share a unit, a power of two, and how many groups of 8 adjacent values each has.
constexpr std::uint32_t LanesOfUnit(std::uint32_t bucket) {
  std::uint32_t lanes = 1;
  while (lanes < 32 && lanes * 8 < bucket * BucketsOfUnit(bucket)) lanes *= 2;
  return lanes;
}
constexpr std::uint32_t GroupsOfLane(std::uint32_t bucket) {
  const std::uint32_t groups = bucket * BucketsOfUnit(bucket) / 8;
  return (groups + LanesOfUnit(bucket) - 1) / LanesOfUnit(bucket);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_BUCKET_JOBS_H_
