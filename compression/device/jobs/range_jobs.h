// What a device is asked to find out about values alone (bucket_jobs.h says what a job is).
// Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_RANGE_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_RANGE_JOBS_H_

#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// The largest magnitude bits of the samples' x.
struct RangeJob {
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  Extremes* extremes = nullptr;  // one per sample of this job
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_RANGE_JOBS_H_
