// What a device is asked to do with values under a factor per channel (bucket_jobs.h says what a
// job is). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_SCALE_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_SCALE_JOBS_H_

#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// values = x * factors, or values = values * factors where a sample has no x.
struct ScaleJob {
  std::uint32_t hidden = 1;
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  const float* factors = nullptr;  // one per channel
  Extremes* extremes = nullptr;    // one per sample of this job; not used
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_SCALE_JOBS_H_
