// What a device is asked to do with m images (bucket_jobs.h says what a job is). Internal to
// compression/.

#ifndef SHOAL_COMPRESSION_IMAGE_JOBS_H_
#define SHOAL_COMPRESSION_IMAGE_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device_sample.h"

namespace shoal::compression {

enum class ImagePass : std::uint8_t {
  kStore,  // next_m = `values` at the sample's exponent
  kLoad,   // `values` = what next_m stands for
};

struct ImageJob {
  ImagePass pass = ImagePass::kStore;
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  Extremes* extremes = nullptr;  // one per sample of this job
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_IMAGE_JOBS_H_
