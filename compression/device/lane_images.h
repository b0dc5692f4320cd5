// m images (m_format.h) as lanes of a GPU's warp read and write them: 8 values at a time, or a part
// of a column (lane_values.h). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_LANE_IMAGES_H_
#define SHOAL_COMPRESSION_DEVICE_LANE_IMAGES_H_

#include "compression/device/jobs/image_jobs.h"
#include "compression/device/lane_buckets.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

// ---- images of codes -------------------------------------------------------------------------

SHOAL_LANE LevelRule ImageRule(int bits) {
  return LevelRule(bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest);
}
SHOAL_LANE std::size_t ColumnScaleOffset(std::uint32_t column) {
  return kMImageHeaderBytes + 2 * std::size_t{column};
}
SHOAL_LANE std::size_t ImageCodeOffset(std::uint32_t hidden, int bits, std::uint32_t position) {
  return ColumnScaleOffset(hidden) + std::size_t{position} * static_cast<std::size_t>(bits) / 8;
}

// Groups of codes behind an odd number of scales lie at addresses that are even and no more.
SHOAL_LANE bool WideCodes(const std::byte* at, int bits) {
  return (reinterpret_cast<std::uintptr_t>(at) & static_cast<std::uintptr_t>(bits - 1)) == 0;
}
SHOAL_LANE std::uint64_t LoadImageCodes(const std::byte* from, int bits) {
  if (WideCodes(from, bits)) return LoadCodes(from, bits);
  std::uint64_t codes = 0;
  for (int i = 0; i < bits; i += 2) {
    codes |= std::uint64_t{LoadAligned<std::uint16_t>(from + i)} << (8 * i);
  }
  return codes;
}
SHOAL_LANE void StoreImageCodes(std::uint64_t codes, int bits, std::byte* to) {
  if (WideCodes(to, bits)) return StoreCodes(codes, bits, to);
  for (int i = 0; i < bits; i += 2) {
    StoreAligned<std::uint16_t>(to + i, static_cast<std::uint16_t>(codes >> (8 * i)));
  }
}

SHOAL_LANE LevelConstants ColumnDecoder(const std::byte* image, int bits, std::uint32_t column,
                                        Extremes& extremes) {
  const auto scale = LoadAligned<std::uint16_t>(image + ColumnScaleOffset(column));
  const bool allowed = scale == 0 || (scale >= kScaleBitsMin && scale <= kScaleBitsMax);
  if (!allowed) Raise(extremes.m, kWrongScale);
  return ImageRule(bits).Decoder({scale, 0});
}

SHOAL_LANE float CodeLevel(const std::byte* image, int bits, std::uint32_t hidden,
                           std::uint32_t position, LevelConstants decoder) {
  const auto part = LoadAligned<std::uint8_t>(image + ImageCodeOffset(hidden, bits, position));
  const std::uint32_t shift = position * static_cast<std::uint32_t>(bits) % 8;
  const std::uint32_t code = part >> shift & ((1U << bits) - 1);
  return static_cast<float>(code) * decoder.factor + decoder.offset;
}

// ---- reading m -------------------------------------------------------------------------------

SHOAL_LANE float ImageValue(const std::byte* image, int bits, std::uint32_t hidden,
                            std::uint32_t position, Extremes& extremes) {
  if (bits == 16) {
    const auto half = LoadAligned<std::uint16_t>(image + HalfOffset(position));
    Raise(extremes.m, half & 0x7fffU);
    return LaneFromHalf(half) * PowerOfTwo(ImageExponent(image));
  }
  const LevelConstants decoder = ColumnDecoder(image, bits, position % hidden, extremes);
  return CodeLevel(image, bits, hidden, position, decoder);
}

// The values of m in a group; 0 behind them.
SHOAL_LANE void LoadImageValues(const ImageJob& job, const std::byte* image, std::uint32_t position,
                                int count, float (&values)[kLaneGroup], Extremes& extremes) {
  if (job.bits == 16) {
    const EightHalves halves = LoadEightHalves(image + HalfOffset(position), count);
    const float factor = PowerOfTwo(ImageExponent(image));
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) {
      Raise(extremes.m, halves.Get(j) & 0x7fffU);
      values[j] = LaneFromHalf(halves.Get(j)) * factor;
    }
    return;
  }
  const int bits = job.bits;
  std::uint64_t codes = LoadImageCodes(image + ImageCodeOffset(job.hidden, bits, position), bits);
  std::uint32_t column = position % job.hidden;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j, codes >>= bits) {
    values[j] = 0;
    if (j >= count) continue;
    const LevelConstants decoder = ColumnDecoder(image, bits, column, extremes);
    const auto code = static_cast<std::uint32_t>(codes) & ((1U << bits) - 1);
    values[j] = static_cast<float>(code) * decoder.factor + decoder.offset;
    column = column + 1 == job.hidden ? 0 : column + 1;
  }
}

// Once per sample, by whoever has its first value.
SHOAL_LANE void CheckImageHeader(const ImageJob& job, const std::byte* m, Extremes& extremes) {
  if (!ImageHeaderFits(m, job.values, job.bits)) extremes.m = kWrongImage;
}

SHOAL_LANE void CheckImageGroup(const ImageJob& job, const DeviceSample& sample,
                                std::uint32_t group, Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  float m[kLaneGroup];
  LoadImageValues(job, sample.m, position, GroupCount(job.values, position), m, extremes);
  if (group == 0) CheckImageHeader(job, sample.m, extremes);
}

SHOAL_LANE void SubtractGroup(const ImageJob& job, const DeviceSample& sample, std::uint32_t group,
                              Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  float x[kLaneGroup], m[kLaneGroup];
  LoadFloats(sample.x + position, count, x);
  LoadImageValues(job, sample.m, position, count, m, extremes);
  if (group == 0) CheckImageHeader(job, sample.m, extremes);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    Raise(extremes.x, MagnitudeBits(x[j]));
    x[j] = x[j] - m[j];
  }
  StoreFloats(x, count, sample.values + position);
}

// ---- writing images of 16 bits ---------------------------------------------------------------

// `values` to an image at the sample's exponent; the largest shows in `extremes.sum`.
SHOAL_LANE void StoreImageGroup(const ImageJob& job, const DeviceSample& sample,
                                std::uint32_t group, Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const float down = PowerOfTwo(-sample.exponent);
  float values[kLaneGroup];
  EightHalves halves;
  LoadFloats(sample.values + position, count, values);
  if (group == 0) WriteImageHeader(sample.exponent, job.values, 16, sample.next_m);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    Raise(extremes.sum, MagnitudeBits(values[j]));
    halves.Set(j, LaneToHalf(values[j] * down));
  }
  StoreEightHalves(halves, count, sample.next_m + HalfOffset(position));
}

// What an image that the passes here wrote stands for.
SHOAL_LANE void LoadImageGroup(const ImageJob& job, const DeviceSample& sample,
                               std::uint32_t group) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const float up = PowerOfTwo(sample.exponent);
  const EightHalves halves = LoadEightHalves(sample.next_m + HalfOffset(position), count);
  float values[kLaneGroup];
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) values[j] = LaneFromHalf(halves.Get(j)) * up;
  StoreFloats(values, count, sample.values + position);
}

SHOAL_LANE void AdvanceImageGroup(const ImageJob& job, const DeviceSample& sample,
                                  std::uint32_t group, Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  float delta[kLaneGroup];
  LoadFloats(sample.values + position, count, delta);
  const EightHalves m = LoadEightHalves(sample.m + HalfOffset(position), count);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) Raise(extremes.m, m.Get(j) & 0x7fffU);
  if (group == 0) {
    CheckImageHeader(job, sample.m, extremes);
    WriteImageHeader(sample.exponent, job.values, 16, sample.next_m);
  }
  DeviceSample quiet = sample;  // the changes are needed again for another exponent
  quiet.values = nullptr;
  AdvanceGroup(quiet, position, count, m, PowerOfTwo(ImageExponent(sample.m)), delta, extremes);
}

// ---- writing images of codes -----------------------------------------------------------------

SHOAL_LANE std::uint32_t ColumnOfLane(const ImageJob& job, std::uint32_t lane) {
  return lane % job.hidden;
}

// The largest magnitude bits of the rows of a column that lane `lane` has.
SHOAL_LANE std::uint32_t MeasureColumn(const ImageJob& job, const DeviceSample& sample,
                                       std::uint32_t lane, Extremes& extremes) {
  const std::uint32_t column = ColumnOfLane(job, lane);
  const std::uint32_t first = lane / job.hidden * kRowsOfLane;
  const std::uint32_t rows = job.values / job.hidden;
  LevelConstants decoder;
  if (sample.m != nullptr) decoder = ColumnDecoder(sample.m, job.bits, column, extremes);
  if (sample.m != nullptr && lane == 0) CheckImageHeader(job, sample.m, extremes);
  std::uint32_t most = 0;
  for (std::uint32_t row = first; row < first + kRowsOfLane && row < rows; ++row) {
    const std::uint32_t position = row * job.hidden + column;
    float value = sample.values[position];
    if (sample.m != nullptr) {
      value = CodeLevel(sample.m, job.bits, job.hidden, position, decoder) + value;
      sample.values[position] = value;
    }
    Raise(most, MagnitudeBits(value));
  }
  Raise(extremes.sum, most);
  return most;
}

// `columns` are those of this sample.
SHOAL_LANE void CodeImageGroup(const ImageJob& job, const DeviceSample& sample, std::uint32_t group,
                               const std::uint32_t* columns) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const int bits = job.bits;
  const LevelRule rule = ImageRule(bits);
  float values[kLaneGroup];
  LoadFloats(sample.values + position, count, values);
  if (group == 0) WriteImageHeader(0, job.values, bits, sample.next_m);
  std::uint32_t column = position % job.hidden;
  std::uint64_t codes = 0;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j >= count) continue;
    const std::uint16_t scale = LevelRule::AbsMaxScale(columns[column]);
    codes |= std::uint64_t{CodeOf(rule, values[j], rule.Encoder({scale, 0}))} << (j * bits);
    if (position + static_cast<std::uint32_t>(j) < job.hidden) {
      StoreAligned<std::uint16_t>(sample.next_m + ColumnScaleOffset(column), scale);
    }
    column = column + 1 == job.hidden ? 0 : column + 1;
  }
  StoreImageCodes(codes, bits, sample.next_m + ImageCodeOffset(job.hidden, bits, position));
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_LANE_IMAGES_H_
