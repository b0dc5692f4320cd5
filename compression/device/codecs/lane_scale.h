// Values under a factor per channel as lanes of a GPU's warp scale them (lane_values.h). Internal
// to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_SCALE_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_SCALE_H_

#include "compression/device/jobs/scale_jobs.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

SHOAL_LANE void ScaleGroup(const ScaleJob& job, const DeviceSample& sample, std::uint32_t group) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  float x[kLaneGroup];
  LoadFloats((sample.x != nullptr ? sample.x : sample.values) + position, count, x);
  std::uint32_t channel = position % job.hidden;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    x[j] = x[j] * job.factors[channel];
    channel = channel + 1 == job.hidden ? 0 : channel + 1;
  }
  StoreFloats(x, count, sample.values + position);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_SCALE_H_
