// Bucket codes in one pass, as seen by one lane (lane_buckets.h). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_UNITS_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_UNITS_H_

#include "compression/device/lane_buckets.h"

namespace shoal::compression {

// ---- one pass: a unit of kBuckets buckets stays in registers ---------------------------------

// kGroups groups of 8 values of one unit: lane l of L has groups l, l + L, l + 2 L, ...
template <int kGroups, bool kDelta>
struct StripeState {
  float coded[kGroups][kLaneGroup];
  EightHalves m[kDelta ? kGroups : 1];
};

template <int kBuckets>
struct UnitRange {
  LaneRange of[kBuckets];
};

// Where group g of a lane begins in its unit.
SHOAL_LANE std::uint32_t GroupStart(int g, std::uint32_t lane, std::uint32_t lanes) {
  return (static_cast<std::uint32_t>(g) * lanes + lane) * kLaneGroup;
}
// Whether the unit and the sample go on at `start` of a unit.
template <int kBuckets>
SHOAL_LANE bool InUnit(const BucketJob& job, std::uint32_t unit, std::uint32_t start) {
  const std::uint32_t size = kBuckets * job.bucket;
  return start < size && (kBuckets == 1 || unit * size + start < job.values);
}
template <int kBuckets>
SHOAL_LANE int UnitGroupCount(const BucketJob& job, std::uint32_t position) {
  return kBuckets == 1 ? kLaneGroup : GroupCount(job.values, position);
}

// kBounds: with the lowest and the highest value, not with the largest magnitude alone.
template <int kBuckets, bool kBounds, int kGroups, bool kDelta>
SHOAL_LANE UnitRange<kBuckets> LoadLane(const BucketJob& job, const DeviceSample& sample,
                                        std::uint32_t unit, std::uint32_t lane, std::uint32_t lanes,
                                        StripeState<kGroups, kDelta>& state, Extremes& extremes) {
  const float factor = FactorOf(job, sample);
  UnitRange<kBuckets> range;
  if (unit == 0 && lane == 0) BeginImages(job, sample, extremes);
  SHOAL_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const std::uint32_t start = GroupStart(g, lane, lanes);
    if (!InUnit<kBuckets>(job, unit, start)) continue;
    const std::uint32_t position = unit * kBuckets * job.bucket + start;
    const int count = UnitGroupCount<kBuckets>(job, position);
    if constexpr (kDelta) {
      float x[kLaneGroup];
      LoadFloats(sample.x + position, count, x);
      state.m[g] = LoadEightHalves(sample.m + HalfOffset(position), count);
      CodedValues(x, state.m[g], true, factor, state.coded[g], extremes);
    } else {
      LoadFloats(sample.x + position, count, state.coded[g]);
    }
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) {
      const bool second = kBuckets > 1 && start + static_cast<std::uint32_t>(j) >= job.bucket;
      if (!second) range.of[0].Add(state.coded[g][j], kBounds);
      if (second && j < count) range.of[kBuckets - 1].Add(state.coded[g][j], kBounds);
    }
  }
  if constexpr (!kDelta) {  // the values themselves are coded
    for (const LaneRange& of : range.of) Raise(extremes.x, of.most);
  }
  return range;
}

// `range` is that of the whole unit.
template <int kBuckets, int kGroups, bool kDelta>
SHOAL_LANE void CodeLane(const BucketJob& job, const DeviceSample& sample, std::uint32_t unit,
                         std::uint32_t lane, std::uint32_t lanes, const UnitRange<kBuckets>& range,
                         const StripeState<kGroups, kDelta>& state, Extremes& extremes) {
  LevelConstants encoder[kBuckets], decoder[kBuckets];
  SHOAL_UNROLL
  for (int b = 0; b < kBuckets; ++b) {
    const std::uint32_t bucket = unit * kBuckets + static_cast<std::uint32_t>(b);
    const ScaleBits scale = RangeScale(job.rule, range.of[b]);
    encoder[b] = job.rule.Encoder(scale);
    decoder[b] = job.rule.Decoder(scale);
    if (lane == 0 && bucket < job.buckets) StoreScale(job, sample.index, bucket, scale);
  }
  const float factor = FactorOf(job, sample);
  const std::uint32_t power = 1U << job.rule.bits();
  SHOAL_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const std::uint32_t start = GroupStart(g, lane, lanes);
    if (!InUnit<kBuckets>(job, unit, start)) continue;
    const std::uint32_t position = unit * kBuckets * job.bucket + start;
    const int count = UnitGroupCount<kBuckets>(job, position);
    std::uint32_t half[2] = {};  // of the codes: multiplying by a power of two is one operation
    float level[kLaneGroup];
    SHOAL_UNROLL
    for (int j = kLaneGroup - 1; j >= 0; --j) {
      const bool second = kBuckets > 1 && start + static_cast<std::uint32_t>(j) >= job.bucket;
      const LevelConstants make = second ? encoder[kBuckets - 1] : encoder[0];
      const LevelConstants read = second ? decoder[kBuckets - 1] : decoder[0];
      const std::uint32_t code = j < count ? CodeOf(job.rule, state.coded[g][j], make) : 0;
      half[j / 4] = half[j / 4] * power + code;
      level[j] = static_cast<float>(code) * read.factor + read.offset;
    }
    const std::uint64_t codes = std::uint64_t{half[1]} << (4 * job.rule.bits()) | half[0];
    StoreCodes(codes, job.rule.bits(), CodeAddress(job, sample.index, position / kLaneGroup));
    if constexpr (kDelta) {
      AdvanceGroup(sample, position, count, state.m[g], factor, level, extremes);
    }
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_UNITS_H_
