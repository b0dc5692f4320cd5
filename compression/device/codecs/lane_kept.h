// Codes of the kept values of topk as threads of a GPU make and read them (lane_values.h says how
// this is built and tested).
//
// KeptJob: MostOfKept and StoreKeptScale over all buckets, then CodeKeptGroup over all groups of
// codes; DecodeKeptGroup over the groups of a sample. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_KEPT_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_KEPT_H_

#include "compression/device/jobs/topk_jobs.h"
#include "compression/device/lane_buckets.h"

namespace shoal::compression {

SHOAL_LANE LevelRule KeptRule(const KeptJob& job) {
  return {job.bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest};
}
SHOAL_LANE std::size_t KeptScale(const KeptJob& job, std::size_t sample, std::uint32_t rank) {
  return sample * BucketsOfKept(job) + rank / job.bucket;
}

// The largest magnitude bits of bucket number `bucket` of the section, as far as the lane looks.
SHOAL_LANE std::uint32_t MostOfKept(const KeptJob& job, std::size_t bucket, std::uint32_t lane,
                                    std::uint32_t lanes) {
  const std::size_t sample = bucket / BucketsOfKept(job);
  const auto first = static_cast<std::uint32_t>(bucket % BucketsOfKept(job)) * job.bucket;
  const std::uint32_t left = job.kept - first;
  const std::uint32_t count = left < job.bucket ? left : job.bucket;
  const float* from = job.kept_values + sample * job.kept + first;
  std::uint32_t most = 0;
  for (std::uint32_t i = lane; i < count; i += lanes) Raise(most, MagnitudeBits(from[i]));
  return most;
}
SHOAL_LANE void StoreKeptScale(const KeptJob& job, std::size_t bucket, std::uint32_t most) {
  StoreAligned<std::uint16_t>(job.scales + 2 * bucket, LevelRule::AbsMaxScale(most));
}

// Group `group` of the section's code stream.
SHOAL_LANE void CodeKeptGroup(const KeptJob& job, std::size_t group) {
  const LevelRule rule = KeptRule(job);
  const std::size_t all = std::size_t{job.count} * job.kept;
  std::size_t sample = group * kLaneGroup / job.kept;
  auto rank = static_cast<std::uint32_t>(group * kLaneGroup % job.kept);
  std::uint64_t codes = 0;
  for (int j = 0; j < kLaneGroup && group * kLaneGroup + j < all; ++j) {
    const auto scale = LoadAligned<std::uint16_t>(job.scales + 2 * KeptScale(job, sample, rank));
    const float x = job.kept_values[sample * job.kept + rank];
    codes |= std::uint64_t{CodeOf(rule, x, rule.Encoder({scale, 0}))} << (j * job.bits);
    if (++rank == job.kept) ++sample, rank = 0;
  }
  StoreCodes(codes, job.bits, job.codes + group * static_cast<std::size_t>(job.bits));
}

SHOAL_LANE std::uint32_t KeptCode(const KeptJob& job, std::size_t number) {
  const std::size_t bit = number % kLaneGroup * static_cast<std::size_t>(job.bits);
  const std::byte* at =
      job.codes + number / kLaneGroup * static_cast<std::size_t>(job.bits) + bit / 8;
  const auto pair = static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1]) << 8;
  return pair >> bit % 8 & ((1U << job.bits) - 1);
}

// A group of values: levels at positions that were kept, zeros elsewhere.
SHOAL_LANE void DecodeKeptGroup(const KeptJob& job, const DeviceSample& sample,
                                std::uint32_t group) {
  const LevelRule rule = KeptRule(job);
  const std::uint32_t position = group * kLaneGroup;
  const std::size_t run = std::size_t{sample.index} * RunsOf(job.values) + position / kRunValues;
  const std::uint32_t in_run = position % kRunValues / kLaneGroup;
  const std::byte* bitmap = job.bitmap + run * kRunBytes;
  std::uint32_t rank = job.ranks[run];
  SHOAL_UNROLL
  for (std::uint32_t word = 0; word < kRunBytes / 4; ++word) {
    const auto bits = LoadAligned<std::uint32_t>(bitmap + 4 * word);
    if (4 * word + 4 <= in_run) rank += OnesOf(bits);
    if (in_run / 4 == word) rank += OnesOf(bits & ((1U << in_run % 4 * 8) - 1));
  }
  const auto map = static_cast<std::uint32_t>(bitmap[in_run]);
  float values[kLaneGroup];
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    values[j] = 0;
    if ((map >> j & 1U) == 0) continue;
    const std::size_t at = 2 * KeptScale(job, sample.index, rank);
    const LevelConstants level = rule.Decoder({LoadAligned<std::uint16_t>(job.scales + at), 0});
    const std::uint32_t code = KeptCode(job, std::size_t{sample.index} * job.kept + rank);
    values[j] = static_cast<float>(code) * level.factor + level.offset;
    ++rank;
  }
  StoreFloats(values, GroupCount(job.values, position), sample.values + position);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_KEPT_H_
