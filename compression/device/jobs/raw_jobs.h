// What a device is asked to do with sections of plain values (bucket_jobs.h says what a job is).
// Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_RAW_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_RAW_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/api/sample_layout.h"
#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// A section of plain values.
struct RawJob {
  CodingPass pass = CodingPass::kEncode;
  ValueType type = ValueType::kFp32;
  std::int32_t exponent = 0;  // of fp16 sections
  std::uint32_t values = 0;   // of a sample, below 2^31
  std::uint32_t count = 0;    // samples of this job
  const DeviceSample* samples = nullptr;
  std::byte* raw = nullptr;      // the whole section
  Extremes* extremes = nullptr;  // one per sample of this job
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_RAW_JOBS_H_
