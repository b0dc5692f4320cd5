// Bucket codes in two passes, and decoding, as seen by one lane (lane_buckets.h). Internal to
// compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_GROUPS_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_GROUPS_H_

#include "compression/device/lane_buckets.h"

namespace shoal::compression {

// ---- two passes: any bucket ------------------------------------------------------------------

// What is coded, one value at a time.
struct CodedAt {
  const DeviceSample& sample;
  bool delta;
  float factor;
  std::uint32_t start;

  SHOAL_LANE float operator()(std::size_t i) const {
    const auto at = static_cast<std::uint32_t>(start + i);
    if (!delta) return sample.x[at];
    const auto m = LoadAligned<std::uint16_t>(sample.m + HalfOffset(at));
    return sample.x[at] - LaneFromHalf(m) * factor;
  }
};

SHOAL_LANE CodedAt CodedOfBucket(const BucketJob& job, const DeviceSample& sample,
                                 std::uint32_t bucket) {
  return {sample, job.delta, FactorOf(job, sample), bucket * job.bucket};
}

SHOAL_LANE LaneRange RangeOfLane(const BucketJob& job, const DeviceSample& sample,
                                 std::uint32_t bucket, std::uint32_t lane, std::uint32_t lanes,
                                 Extremes& extremes) {
  const CodedAt coded = CodedOfBucket(job, sample, bucket);
  LaneRange range;
  if (bucket == 0 && lane == 0) BeginImages(job, sample, extremes);
  for (std::uint32_t i = lane; i < job.bucket; i += lanes) {
    Raise(extremes.x, MagnitudeBits(sample.x[coded.start + i]));
    if (job.delta) {
      const auto m = LoadAligned<std::uint16_t>(sample.m + HalfOffset(coded.start + i));
      Raise(extremes.m, m & 0x7fffU);
    }
    range.Add(coded(i));
  }
  return range;
}

// ScaleRule::kOptimal: lane t tries scale t. The lane with the least error wins, the first of
// several.
struct ScaleTry {
  float error = std::bit_cast<float>(kFloatInfinity);
  std::uint32_t t = 0;
  std::uint16_t scale = 0;

  SHOAL_LANE void Add(const ScaleTry& other) {
    if (other.error < error || (other.error == error && other.t < t)) *this = other;
  }
};
SHOAL_LANE ScaleTry TryScale(const BucketJob& job, const DeviceSample& sample, std::uint32_t bucket,
                             std::uint16_t largest, std::uint32_t lane) {
  ScaleTry tried{std::bit_cast<float>(kFloatInfinity), lane, largest};
  if (lane >= LevelRule::kScaleTries || largest == 0) return tried;
  tried.scale = LevelRule::TriedScale(largest, static_cast<int>(lane));
  if (tried.scale < kScaleBitsMin) return tried;
  tried.error =
      job.rule.SquaredError(CodedOfBucket(job, sample, bucket), job.bucket, largest, tried.scale);
  return tried;
}

// Calls use(j, constants) for the values of a group, each with the constants of its bucket.
template <bool kEncoder, typename Use>
SHOAL_LANE void ForEachInGroup(const BucketJob& job, const DeviceSample& sample,
                               std::uint32_t position, int count, const Use& use) {
  std::uint32_t bucket = position / job.bucket;
  std::uint32_t left = job.bucket - position % job.bucket;
  LevelConstants constants;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < count && (j == 0 || left == 0)) {
      if (left == 0) ++bucket, left = job.bucket;
      const ScaleBits scale = LoadScale(job, sample.index, bucket);
      constants = kEncoder ? job.rule.Encoder(scale) : job.rule.Decoder(scale);
    }
    use(j, constants);
    --left;
  }
}

struct UseLevel {
  std::uint64_t codes;
  int bits;
  float (&level)[kLaneGroup];

  SHOAL_LANE void operator()(int j, LevelConstants decoder) const {
    const auto code = static_cast<std::uint32_t>(codes >> (j * bits)) & ((1U << bits) - 1);
    level[j] = static_cast<float>(code) * decoder.factor + decoder.offset;
  }
};

struct UseCode {
  const LevelRule& rule;
  int count;
  const float (&coded)[kLaneGroup];
  const float (&noise)[kLaneGroup];
  std::uint64_t& codes;

  SHOAL_LANE void operator()(int j, LevelConstants encoder) const {
    if (j >= count) return;
    if (rule.rounding() == Rounding::kStochastic) encoder.offset = encoder.offset + noise[j];
    codes |= std::uint64_t{CodeOf(rule, coded[j], encoder)} << (j * rule.bits());
  }
};

// Group `group` of a sample from codes and scales: values, or m + level.
template <bool kDelta>
SHOAL_LANE void DecodeGroup(const BucketJob& job, const DeviceSample& sample, std::uint32_t group,
                            Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const int bits = job.rule.bits();
  float level[kLaneGroup];
  const std::uint64_t codes = LoadCodes(CodeAddress(job, sample.index, group), bits);
  ForEachInGroup<false>(job, sample, position, count, UseLevel{codes, bits, level});
  if constexpr (!kDelta) {
    StoreFloats(level, count, sample.values + position);
    return;
  }
  if (group == 0) BeginImages(job, sample, extremes);
  const EightHalves m = LoadEightHalves(sample.m + HalfOffset(position), count);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) Raise(extremes.m, m.Get(j) & 0x7fffU);
  AdvanceGroup(sample, position, count, m, FactorOf(job, sample), level, extremes);
}

// Codes of a group whose scales are known; with `delta` decodes it as well.
template <bool kDelta>
SHOAL_LANE void EncodeGroup(const BucketJob& job, const DeviceSample& sample, std::uint32_t group,
                            Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  float x[kLaneGroup], coded[kLaneGroup];
  float noise[kLaneGroup] = {};
  EightHalves m;
  LoadFloats(sample.x + position, count, x);
  if (kDelta) m = LoadEightHalves(sample.m + HalfOffset(position), count);
  CodedValues(x, m, kDelta, FactorOf(job, sample), coded, extremes);
  if (job.rule.rounding() == Rounding::kStochastic) {
    GroupNoise(job.key, std::uint64_t{sample.index} * job.values + position, noise);
  }
  std::uint64_t codes = 0;
  ForEachInGroup<true>(job, sample, position, count, UseCode{job.rule, count, coded, noise, codes});
  StoreCodes(codes, job.rule.bits(), CodeAddress(job, sample.index, group));
  if constexpr (kDelta) DecodeGroup<true>(job, sample, group, extremes);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_GROUPS_H_
