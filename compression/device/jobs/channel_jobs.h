// What a device is asked to do with sections that have one scale per channel (bucket_jobs.h says
// what a job is). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_CHANNEL_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_CHANNEL_JOBS_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "compression/device/jobs/device_sample.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {

// Finite floats as unsigned numbers in the same order (-0 below 0), and back.
constexpr std::uint32_t OrderedBits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
constexpr float OfOrderedBits(std::uint32_t bits) {
  return std::bit_cast<float>(bits >> 31 != 0 ? bits & 0x7fffffffU : ~bits);
}

// What a job met in a channel; all 0 before it.
struct ChannelRange {
  std::uint32_t most = 0;  // the largest magnitude bits
  std::uint32_t high = 0;  // the ordered bits of the largest value
  std::uint32_t low = 0;   // the complement of those of the smallest
};

// The ranges of all channels over the job's samples.
struct ChannelRangeJob {
  std::uint32_t hidden = 0;
  std::uint32_t tokens = 0;  // of a sample
  std::uint32_t count = 0;   // samples
  const DeviceSample* samples = nullptr;
  ChannelRange* ranges = nullptr;
};
inline constexpr std::uint32_t kChannelRows = 32;  // tokens of a sample that a lane looks at

// ScaleRule::kOptimal: the error of every scale that is tried.
struct ChannelTryJob {
  LevelRule rule{1, Levels::kMidRise, ScaleRule::kOptimal, Rounding::kNearest};
  std::uint32_t hidden = 0;
  std::uint32_t tokens = 0;
  std::uint32_t count = 0;
  const DeviceSample* samples = nullptr;
  const std::uint16_t* largest = nullptr;  // the absmax scale of each channel
  float* errors = nullptr;                 // of scale t of channel c: errors[t * hidden + c]
};

// Codes of a section from its values, or values from its codes.
struct ChannelJob {
  CodingPass pass = CodingPass::kEncode;
  LevelRule rule{1, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest};
  bool authors = false;  // codes by AuthorsCode (channel_codec.h); of `rule` only the bits count
  std::uint32_t hidden = 0;
  std::uint32_t values = 0;   // of a sample, below 2^31
  std::uint32_t key[2] = {};  // MessageKeyWords, for stochastic rounding
  std::uint32_t count = 0;    // samples of this job
  const DeviceSample* samples = nullptr;
  const float* first = nullptr;  // ChannelCodec::Constants
  const float* second = nullptr;
  std::byte* codes = nullptr;    // packed, of the whole section
  Extremes* extremes = nullptr;  // one per sample of this job; not used
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_CHANNEL_JOBS_H_
