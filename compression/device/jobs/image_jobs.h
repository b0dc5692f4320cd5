// What a device is asked to do with m images (bucket_jobs.h says what a job is). Internal to
// compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_IMAGE_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_IMAGE_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

enum class ImagePass : std::uint8_t {
  kCheck,     // m, and nothing else
  kSubtract,  // values = x - m
  // Images of 16 bits.
  kStore,    // next_m = values, at the sample's exponent
  kLoad,     // values = what next_m stands for
  kAdvance,  // next_m = m + values, at the sample's exponent; values stay as they are
  // Images of codes.
  kMeasure,  // values = m + values where there is an m; `columns` become their largest
  kCode,     // next_m = values, with scales from `columns`
};

struct ImageJob {
  ImagePass pass = ImagePass::kStore;
  std::uint8_t bits = 16;    // of a value in an image: 16, 8, 4, 2
  std::uint32_t hidden = 1;  // columns
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  // Magnitude bits of every column of every sample of this job; 0 before kMeasure.
  std::uint32_t* columns = nullptr;
  Extremes* extremes = nullptr;  // one per sample of this job
};

// kMeasure: lane l has column l % hidden and so many of its rows.
inline constexpr std::uint32_t kRowsOfLane = 32;
constexpr std::uint32_t LanesOfColumns(const ImageJob& job) {
  return (job.values / job.hidden + kRowsOfLane - 1) / kRowsOfLane * job.hidden;
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_IMAGE_JOBS_H_
