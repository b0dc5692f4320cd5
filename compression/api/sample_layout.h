// The bytes of a section's header and the checks that codecs share (docs/WIRE.md, "Payloads").
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_SAMPLE_LAYOUT_H_
#define SHOAL_COMPRESSION_API_SAMPLE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/codec.h"

namespace shoal::compression {

enum class CodecId : std::uint8_t {
  kRaw = 1,
  kDirect = 2,
  kAqsgd = 3,  // a message of sections, not a section
  kChannel = 4,
  kTiles = 5,
  kTopK = 6,
  kDithered = 7,
  kLowRank = 8,  // a message that holds factors or a section
  kShifted = 9,
  kLearned = 10,
  kScaled = 11,  // channel scales around a section of another codec
  kLowRankChanges = 12,
  kKlt = 13  // reflectors before two sections of `dithered`
};
enum class ValueType : std::uint8_t { kFp32 = 1, kFp16 = 2, kBf16 = 3 };

inline constexpr std::uint8_t kPayloadLayoutVersion = 2;
inline constexpr std::size_t kPayloadHeaderBytes = 16;

// Opens every section, so that none depends on its place to be understood.
struct PayloadHeader {
  CodecId codec = CodecId::kRaw;
  std::uint8_t bits = 0;              // per value
  ValueType type = ValueType::kFp32;  // of the values (raw) or of the scales (others)
  std::uint8_t variant = 0;           // 0 .. 15, the codec's own
  std::uint32_t bucket = 0;           // values per scale, < 2^24; 0: no scales
  std::int8_t exponent = 0;           // raw fp16: value = fp16 * 2^exponent; else 0
  std::uint64_t values = 0;           // samples * tokens * hidden
  bool operator==(const PayloadHeader&) const = default;
};

// Writes kPayloadHeaderBytes.
void WritePayloadHeader(const PayloadHeader& header, std::byte* out);

// Checks that `payload` begins with a header that equals `want`, the exponent aside, which is
// returned. `spec` names the codec in the error.
Result<int> CheckHeader(std::span<const std::byte> payload, const PayloadHeader& want,
                        std::string_view spec);
// The same of a payload that must have exactly `bytes` bytes.
Result<int> CheckPayload(std::span<const std::byte> payload, const PayloadHeader& want,
                         std::size_t bytes, std::string_view spec);

// Values of codecs with scales or fp16 may not exceed this magnitude (2^118): sums and exponents
// then stay in range everywhere.
inline constexpr float kMagnitudeMax = 0x1p118F;
// A delta is a value up to 2^118 minus an m up to 65504 * 2^104.
inline constexpr float kDeltaMax = 0x1p121F;
// Exponents of fp16 values: 0 unless a value rounds beyond 65504 without one, or all values are so
// small (below kHalfSmall) that fp16 would lose their digits.
inline constexpr int kExponentMax = 104;
inline constexpr int kHalfExponentMin = -100;
inline constexpr float kHalfSmall = 0x1p-10F;

// The exponent for values of at most these magnitude bits: the smallest >= 0 with which the largest
// fits into fp16; below kHalfSmall that with which it lies in [1, 2), down to kHalfExponentMin. An
// error if it exceeds kExponentMax.
Result<int> ExponentFor(std::uint32_t magnitude_bits, std::string_view spec);

// Error unless every magnitude up to `magnitude_bits` is finite and at most `most`.
Status CheckMagnitude(std::uint32_t magnitude_bits, float most, std::string_view spec);

// Checks the limits of SampleShape, and that there are 1 to 65536 samples of less than 2^40 values
// in all. Each sample must have shape.values() values, or none where `empty_allowed`.
Status CheckSamples(SampleShape shape, std::span<const std::size_t> given, bool empty_allowed,
                    std::string_view spec);
template <typename Spans>
Status CheckSamples(SampleShape shape, const Spans& samples, bool empty_allowed,
                    std::string_view spec) {
  std::vector<std::size_t> given;
  given.reserve(samples.size());
  for (const auto& sample : samples) given.push_back(sample.size());
  return CheckSamples(shape, std::span<const std::size_t>(given), empty_allowed, spec);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_SAMPLE_LAYOUT_H_
