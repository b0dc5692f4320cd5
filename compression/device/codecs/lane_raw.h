// Plain values as lanes of a GPU's warp write and read them, 8 at a time (lane_values.h). Internal
// to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_RAW_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_RAW_H_

#include "compression/device/jobs/raw_jobs.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

SHOAL_LANE std::byte* RawAddress(const RawJob& job, std::uint32_t index, std::uint32_t position) {
  const std::size_t value = std::size_t{index} * job.values + position;
  return job.raw + value * (job.type == ValueType::kFp32 ? 4 : 2);
}

// Values of a sample to the section.
SHOAL_LANE void EncodeRawGroup(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                               Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const float down = PowerOfTwo(-job.exponent);
  float x[kLaneGroup];
  EightHalves halves;
  LoadFloats(sample.x + position, count, x);
  std::byte* to = RawAddress(job, sample.index, position);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    Raise(extremes.x, MagnitudeBits(x[j]));
    halves.Set(j, job.type == ValueType::kFp16 ? LaneToHalf(x[j] * down) : FloatToBf16(x[j]));
  }
  if (job.type == ValueType::kFp32) return StoreFloats(x, count, reinterpret_cast<float*>(to));
  StoreEightHalves(halves, count, to);
}

// And back; infinities and NaNs show in `extremes.x`.
SHOAL_LANE void DecodeRawGroup(const RawJob& job, const DeviceSample& sample, std::uint32_t group,
                               Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const float up = PowerOfTwo(job.exponent);
  const std::byte* from = RawAddress(job, sample.index, position);
  float values[kLaneGroup] = {};
  if (job.type == ValueType::kFp32) {
    LoadFloats(reinterpret_cast<const float*>(from), count, values);
  } else {
    const EightHalves halves = LoadEightHalves(from, count);
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) {
      values[j] = job.type == ValueType::kFp16 ? LaneFromHalf(halves.Get(j)) * up
                                               : Bf16ToFloat(halves.Get(j));
    }
  }
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) Raise(extremes.x, MagnitudeBits(values[j]));
  StoreFloats(values, count, sample.values + position);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_RAW_H_
