// m images as lanes of a GPU's warp write and read them, 8 values at a time (lane_values.h).
// Internal to compression/.

#ifndef SHOAL_COMPRESSION_LANE_IMAGES_H_
#define SHOAL_COMPRESSION_LANE_IMAGES_H_

#include "compression/image_jobs.h"
#include "compression/lane_values.h"

namespace shoal::compression {

// `values` to an image at the sample's exponent; the largest shows in `extremes.sum`.
SHOAL_LANE void StoreImageGroup(const ImageJob& job, const DeviceSample& sample,
                                std::uint32_t group, Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const float down = PowerOfTwo(-sample.exponent);
  float values[kLaneGroup];
  EightHalves halves;
  LoadFloats(sample.values + position, count, values);
  if (group == 0) WriteImageHeader(sample.exponent, job.values, sample.next_m);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    Raise(extremes.sum, MagnitudeBits(values[j]));
    halves.Set(j, LaneToHalf(values[j] * down));
  }
  StoreEightHalves(halves, count, sample.next_m + HalfPlace(position));
}

// What an image that StoreImageGroup wrote stands for.
SHOAL_LANE void LoadImageGroup(const ImageJob& job, const DeviceSample& sample,
                               std::uint32_t group) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const float up = PowerOfTwo(sample.exponent);
  const EightHalves halves = LoadEightHalves(sample.next_m + HalfPlace(position), count);
  float values[kLaneGroup];
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) values[j] = LaneFromHalf(halves.Get(j)) * up;
  StoreFloats(values, count, sample.values + position);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_LANE_IMAGES_H_
