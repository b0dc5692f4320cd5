// What a device is asked to do with sections of topk (bucket_jobs.h says what a job is). Internal
// to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_TOPK_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_TOPK_JOBS_H_

#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/device_sample.h"

namespace shoal::compression {

// The positions of a sample are a bitmap, as in a payload, and how many are in front of each run of
// 256 values. Both lie in whole runs on the device.
inline constexpr std::uint32_t kRunValues = 256;
inline constexpr std::size_t kRunBytes = kRunValues / 8;
constexpr std::size_t RunsOf(std::uint32_t values) {
  return (std::size_t{values} + kRunValues - 1) / kRunValues;
}

// The magnitude bits that separate kept values from others are found digit by digit from the top:
// 11, 10 and 10 bits.
inline constexpr int kDigitLevels = 3;
constexpr std::uint32_t DigitsOfLevel(int level) { return level == 0 ? 2048 : 1024; }
constexpr std::uint32_t DigitStart(int level) {
  return level == 0 ? 0 : DigitsOfLevel(0) + static_cast<std::uint32_t>(level - 1) * 1024;
}
inline constexpr std::size_t kDigitCounters = 4096;

// What is known of a sample's least kept magnitude after some digits: its upper bits, and which of
// the values with these bits it is, from the largest (1). After all digits: itself, and how many of
// its equals are kept.
struct LeastKept {
  std::uint32_t bits = 0;
  std::uint32_t rank = 0;
};

// Finds the kept values of samples, kSelectedAtOnce at most.
inline constexpr std::size_t kSelectedAtOnce = 64;
struct SelectJob {
  std::uint32_t values = 0;  // of a sample, below 2^31
  std::uint32_t kept = 0;    // of a sample, 1 .. values
  std::uint32_t count = 0;   // samples of this job
  const DeviceSample* samples = nullptr;
  Extremes* extremes = nullptr;  // one per sample of this job
  // Per sample of this job.
  std::uint32_t* counters = nullptr;  // kDigitCounters, all 0
  LeastKept* least = nullptr;
  std::uint64_t* before = nullptr;  // per run, values in front of it: << 32 larger than the least
                                    // kept, and equal to it
  // Of the whole section.
  float* kept_values = nullptr;
  std::byte* bitmap = nullptr;
  std::uint32_t* ranks = nullptr;
};

// Codes the kept values of a section (mid-rise, absmax, nearest), or decodes samples of it. Codes
// are one stream of all samples.
struct KeptJob {
  CodingPass pass = CodingPass::kEncode;
  int bits = 1;
  std::uint32_t bucket = 0;  // the last one of a sample may be shorter
  std::uint32_t values = 0;
  std::uint32_t kept = 0;
  std::uint32_t count = 0;  // to encode: all samples of the section
  const DeviceSample* samples = nullptr;
  Extremes* extremes = nullptr;
  const float* kept_values = nullptr;
  const std::byte* bitmap = nullptr;
  const std::uint32_t* ranks = nullptr;
  std::byte* scales = nullptr;
  std::byte* codes = nullptr;  // 8 bytes of room behind the last
};
constexpr std::uint32_t BucketsOfKept(const KeptJob& job) {
  return (job.kept + job.bucket - 1) / job.bucket;
}
// Groups of 8 codes of the section.
constexpr std::size_t GroupsOfKept(const KeptJob& job) {
  return (std::size_t{job.count} * job.kept + 7) / 8;
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_TOPK_JOBS_H_
