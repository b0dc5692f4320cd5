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

  // Without `bounds` the magnitude alone, which is all that most rules need.
  SHOAL_LANE void Add(float value, bool bounds = true) {
    Raise(most, MagnitudeBits(value));
    if (!bounds) return;
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

// The bytes of `codes` in kParts parts, by instructions that are known beforehand.
template <typename Part, int kParts>
SHOAL_LANE void StoreParts(std::uint64_t codes, std::byte* to) {
  SHOAL_UNROLL
  for (int i = 0; i < kParts; ++i, codes >>= 8 * sizeof(Part) % 64) {
    StoreAligned<Part>(to + i * sizeof(Part), static_cast<Part>(codes));
  }
}
template <typename Part, int kParts>
SHOAL_LANE std::uint64_t LoadParts(const std::byte* from) {
  std::uint64_t codes = 0;
  SHOAL_UNROLL
  for (int i = 0; i < kParts; ++i) {
    codes |= std::uint64_t{LoadAligned<Part>(from + i * sizeof(Part))} << (8 * sizeof(Part) * i);
  }
  return codes;
}

// A group of 8 codes is `bits` bytes at a multiple of `bits`.
SHOAL_LANE void StoreCodes(std::uint64_t codes, int bits, std::byte* to) {
  switch (bits) {
    case 1: return StoreParts<std::uint8_t, 1>(codes, to);
    case 2: return StoreParts<std::uint16_t, 1>(codes, to);
    case 3: return StoreParts<std::uint8_t, 3>(codes, to);
    case 4: return StoreParts<std::uint32_t, 1>(codes, to);
    case 5: return StoreParts<std::uint8_t, 5>(codes, to);
    case 6: return StoreParts<std::uint16_t, 3>(codes, to);
    case 7: return StoreParts<std::uint8_t, 7>(codes, to);
    default: return StoreParts<std::uint64_t, 1>(codes, to);
  }
}
SHOAL_LANE std::uint64_t LoadCodes(const std::byte* from, int bits) {
  switch (bits) {
    case 1: return LoadParts<std::uint8_t, 1>(from);
    case 2: return LoadParts<std::uint16_t, 1>(from);
    case 3: return LoadParts<std::uint8_t, 3>(from);
    case 4: return LoadParts<std::uint32_t, 1>(from);
    case 5: return LoadParts<std::uint8_t, 5>(from);
    case 6: return LoadParts<std::uint16_t, 3>(from);
    case 7: return LoadParts<std::uint8_t, 7>(from);
    default: return LoadParts<std::uint64_t, 1>(from);
  }
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

// trunc(value), within 0 ... `top`, which is below 2^23. Of values that are refused afterwards,
// too: 0 for what is no number.
SHOAL_LANE std::uint32_t TruncatedWithin(float value, int top) {
#ifdef __CUDA_ARCH__
  // At 2^23 a float's last bit is worth 1. A conversion takes a GPU four to eight times as long.
  constexpr std::uint32_t kWholeBits = 0x4b000000;  // of 2^23
  const float within = fminf(fmaxf(value, 0.0F), static_cast<float>(top));
  return __float_as_uint(__fadd_rz(within, 0x1p23F)) - kWholeBits;
#else
  const int code = value > -0x1p30F && value < 0x1p30F ? static_cast<int>(value) : 0;
  const int most = value >= 0x1p30F ? top : code;
  return static_cast<std::uint32_t>(most < 0 ? 0 : most > top ? top : most);
#endif
}
SHOAL_LANE std::uint32_t CodeOf(const LevelRule& rule, float x, LevelConstants encoder) {
  return TruncatedWithin(x * encoder.factor + encoder.offset, rule.top());
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
