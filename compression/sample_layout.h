// The bytes of a sample payload's header and of an m image (docs/WIRE.md, "Sample payloads").
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SAMPLE_LAYOUT_H_
#define SHOAL_COMPRESSION_SAMPLE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "common/status.h"
#include "compression/codec.h"

namespace shoal::compression {

enum class CodecId : std::uint8_t { kRaw = 1, kDirect = 2, kAqsgd = 3 };
enum class ValueType : std::uint8_t { kFp32 = 1, kFp16 = 2, kBf16 = 3 };

inline constexpr std::uint8_t kPayloadLayoutVersion = 1;
inline constexpr std::size_t kPayloadHeaderBytes = 16;

// Opens every sample payload, so that no message depends on its place to be understood.
struct PayloadHeader {
  CodecId codec = CodecId::kRaw;
  std::uint8_t bits = 0;              // per value
  ValueType type = ValueType::kFp32;  // of the values (raw) or of the scales (others)
  bool first_visit = false;           // stands for a first visit of a codec that keeps m
  std::uint32_t bucket = 0;           // values per scale, < 2^24; 0: no scales
  std::int8_t exponent = 0;           // raw fp16: value = fp16 * 2^exponent; else 0
  std::uint64_t values = 0;           // tokens * hidden
  bool operator==(const PayloadHeader&) const = default;
};

// Writes kPayloadHeaderBytes.
void WritePayloadHeader(const PayloadHeader& header, std::byte* out);

// Checks that `payload` has exactly `bytes` bytes and that its header equals `want`, the exponent
// aside, which is returned. `spec` names the codec in the error.
Result<int> CheckPayload(std::span<const std::byte> payload, const PayloadHeader& want,
                         std::size_t bytes, std::string_view spec);

// Values of codecs with scales or fp16 may not exceed this magnitude (2^118): sums and exponents
// then stay in range everywhere.
inline constexpr float kMagnitudeMax = 0x1p118F;
// Exponents of fp16 values: 0 unless a value rounds beyond 65504 without one.
inline constexpr int kExponentMax = 104;

// The smallest exponent >= 0 with which a value of these magnitude bits fits into fp16, or an
// error if it exceeds kExponentMax.
Result<int> ExponentFor(std::uint32_t magnitude_bits, std::string_view spec);

// Error unless every magnitude up to `magnitude_bits` is finite and at most `most`.
Status CheckMagnitude(std::uint32_t magnitude_bits, float most, std::string_view spec);

// Checks the tokens and hidden limits of SampleShape and that `given` values were passed.
Status CheckShape(SampleShape shape, std::size_t given, std::string_view spec);

inline constexpr std::uint8_t kMImageVersion = 1;
inline constexpr std::size_t kMImageHeaderBytes = 16;

// Writes an image's header; `image` has MImageBytes.
void WriteMImageHeader(int exponent, std::uint64_t values, std::byte* image);
// The exponent of a checked image.
int MImageExponent(std::span<const std::byte> image);
// The fp16 values of an image.
inline const std::byte* MImageValues(std::span<const std::byte> image) {
  return image.data() + kMImageHeaderBytes;
}
// CheckMImage and that all values are finite.
Status CheckMImageValues(std::span<const std::byte> image, SampleShape shape,
                         std::string_view spec);

// Replaces `values` by what an image of them stores and returns that image.
Result<Buffer> MakeMImage(std::span<float> values, SampleShape shape, std::string_view spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SAMPLE_LAYOUT_H_
