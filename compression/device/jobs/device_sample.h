// One sample as a device sees it, and what a job reports of it: plain structures that kernels take
// by value.
//
// All pointers are device memory. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_DEVICE_SAMPLE_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_DEVICE_SAMPLE_H_

#include <cstddef>
#include <cstdint>

namespace shoal::compression {

// One sample of a job. Which pointers are used depends on the job; images (m_format.h) are aligned
// to 16 bytes.
struct DeviceSample {
  const float* x = nullptr;      // values to encode
  float* values = nullptr;       // decoded values; null: not wanted
  const std::byte* m = nullptr;  // image
  std::byte* next_m = nullptr;   // image
  std::uint32_t index = 0;       // place in its section
  std::int32_t exponent = 0;     // of next_m
};

// The largest magnitude bits that a job met in one sample; all 0 before it.
struct Extremes {
  std::uint32_t x = 0;
  std::uint32_t m = 0;  // fp16 bits; kWrongScale, kWrongImage (header) if m is no image
  std::uint32_t sum = 0;
};
inline constexpr std::uint32_t kWrongImage = 0xffffffff;
inline constexpr std::uint32_t kWrongScale = 0xfffffffe;

enum class CodingPass : std::uint8_t { kEncode, kDecode };

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_DEVICE_SAMPLE_H_
