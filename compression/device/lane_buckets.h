// Bucket codes as lanes of a GPU's warp make and read them (lane_values.h says how this is built
// and tested; level_rule.h has the arithmetic).
//
// One pass: LoadLane in every lane, the largest range over the lanes of a unit, CodeLane in every
// lane; between the two the unit's buckets are in registers. Two passes: RangeOfLane and
// BucketScale, then EncodeGroup. DecodeGroup reads both. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_LANE_BUCKETS_H_
#define SHOAL_COMPRESSION_DEVICE_LANE_BUCKETS_H_

#include "compression/device/jobs/bucket_jobs.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

struct LaneRange {
  std::uint32_t most = 0;
  float low = std::bit_cast<float>(kFloatInfinity);
  float high = std::bit_cast<float>(kFloatInfinity | 0x80000000);

  SHOAL_LANE void Add(float value) {
    Raise(most, MagnitudeBits(value));
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  SHOAL_LANE void Add(const LaneRange& other) {
    Raise(most, other.most);
    low = other.low < low ? other.low : low;
    high = other.high > high ? other.high : high;
  }
};

// ---- where things lie ------------------------------------------------------------------------

SHOAL_LANE std::byte* ScaleAddress(const BucketJob& job, std::uint32_t index,
                                   std::uint32_t bucket) {
  return job.scales + (std::size_t{index} * job.buckets + bucket) * job.rule.scale_bytes();
}
SHOAL_LANE std::byte* CodeAddress(const BucketJob& job, std::uint32_t index, std::uint32_t group) {
  const std::size_t groups = (std::size_t{job.values} + 7) / 8;
  return job.codes + (index * groups + group) * static_cast<std::size_t>(job.rule.bits());
}

SHOAL_LANE ScaleBits LoadScale(const BucketJob& job, std::uint32_t index, std::uint32_t bucket) {
  const std::byte* at = ScaleAddress(job, index, bucket);
  ScaleBits scale{LoadAligned<std::uint16_t>(at), 0};
  if (job.rule.levels() == Levels::kAffine) scale.high = LoadAligned<std::uint16_t>(at + 2);
  return scale;
}
SHOAL_LANE void StoreScale(const BucketJob& job, std::uint32_t index, std::uint32_t bucket,
                           ScaleBits scale) {
  std::byte* at = ScaleAddress(job, index, bucket);
  StoreAligned<std::uint16_t>(at, scale.first);
  if (job.rule.levels() == Levels::kAffine) StoreAligned<std::uint16_t>(at + 2, scale.high);
}

// A group of 8 codes is `bits` bytes at a multiple of `bits`.
SHOAL_LANE void StoreCodes(std::uint64_t codes, int bits, std::byte* to) {
  if (bits == 8) return StoreAligned<std::uint64_t>(to, codes);
  if (bits == 4) return StoreAligned<std::uint32_t>(to, static_cast<std::uint32_t>(codes));
  const int unit = bits % 2 == 0 ? 2 : 1;
  for (int i = 0; i < bits; i += unit, codes >>= 8 * unit) {
    if (unit == 2) {
      StoreAligned<std::uint16_t>(to + i, static_cast<std::uint16_t>(codes));
    } else {
      StoreAligned<std::uint8_t>(to + i, static_cast<std::uint8_t>(codes));
    }
  }
}
SHOAL_LANE std::uint64_t LoadCodes(const std::byte* from, int bits) {
  if (bits == 8) return LoadAligned<std::uint64_t>(from);
  if (bits == 4) return LoadAligned<std::uint32_t>(from);
  const int unit = bits % 2 == 0 ? 2 : 1;
  std::uint64_t codes = 0;
  for (int i = 0; i < bits; i += unit) {
    const std::uint64_t part =
        unit == 2 ? LoadAligned<std::uint16_t>(from + i) : LoadAligned<std::uint8_t>(from + i);
    codes |= part << (8 * i);
  }
  return codes;
}

// ---- steps that all ways share ---------------------------------------------------------------

// What is coded: x, or x - m. Counts both.
SHOAL_LANE void CodedValues(const float (&x)[kLaneGroup], const EightHalves& m, bool delta,
                            float factor, float (&coded)[kLaneGroup], Extremes& extremes) {
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    Raise(extremes.x, MagnitudeBits(x[j]));
    if (delta) Raise(extremes.m, m.Get(j) & 0x7fffU);
    coded[j] = delta ? x[j] - LaneFromHalf(m.Get(j)) * factor : x[j];
  }
}

// Of values that are refused afterwards, too; the device's conversion is defined for all.
SHOAL_LANE int Truncated(float value) {
#ifdef __CUDA_ARCH__
  return static_cast<int>(value);
#else
  return value > -0x1p30F && value < 0x1p30F ? static_cast<int>(value) : 0;
#endif
}
SHOAL_LANE std::uint32_t CodeOf(const LevelRule& rule, float x, LevelConstants encoder) {
  return static_cast<std::uint32_t>(rule.Clamped(Truncated(x * encoder.factor + encoder.offset)));
}

// next = m + level at the sample's exponent; `values`, if wanted, become what it stands for.
SHOAL_LANE void AdvanceGroup(const DeviceSample& sample, std::uint32_t position, int count,
                             const EightHalves& m, float factor, const float (&level)[kLaneGroup],
                             Extremes& extremes) {
  const float down = PowerOfTwo(-sample.exponent);
  const float up = PowerOfTwo(sample.exponent);
  EightHalves next;
  float value[kLaneGroup];
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    const float sum = LaneFromHalf(m.Get(j)) * factor + level[j];
    if (j < count) Raise(extremes.sum, MagnitudeBits(sum));
    next.Set(j, LaneToHalf(sum * down));
    value[j] = LaneFromHalf(next.Get(j)) * up;
  }
  StoreEightHalves(next, count, sample.next_m + HalfOffset(position));
  if (sample.values != nullptr) StoreFloats(value, count, sample.values + position);
}

// Once per sample, by whoever has its first value.
SHOAL_LANE void BeginImages(const BucketJob& job, const DeviceSample& sample, Extremes& extremes) {
  if (!job.delta) return;
  if (!ImageHeaderFits(sample.m, job.values, 16)) extremes.m = kWrongImage;
  WriteImageHeader(sample.exponent, job.values, 16, sample.next_m);
}

SHOAL_LANE float FactorOf(const BucketJob& job, const DeviceSample& sample) {
  return job.delta ? PowerOfTwo(ImageExponent(sample.m)) : 1.0F;
}

SHOAL_LANE ScaleBits RangeScale(const LevelRule& rule, const LaneRange& range) {
  if (rule.levels() == Levels::kAffine) {
    return LevelRule::AffineScale(range.low, range.high, rule.least_scale());
  }
  return {LevelRule::AbsMaxScale(range.most, rule.least_scale()), 0};
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_LANE_BUCKETS_H_
