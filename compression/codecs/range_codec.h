// RangeCodec: sections of b-bit codes whose buckets have their own smallest value and width, both
// fp32, so that nothing of a bucket is outside (docs/WIRE.md, "shifted and learned").
//
// header | what names the table of levels, if there is one | smallest value and width of every
// bucket | codes: of each sample packed, or of all one code stream. What a code stands for is the
// derived codec's. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_RANGE_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_RANGE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compression/api/sample_layout.h"
#include "compression/codecs/bucket_code.h"
#include "compression/codecs/plain_codec.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {

// Values of a bucket are low + t * width, t in [0, 1]. `low` is 0 or at least 2^-100 in magnitude,
// `width` 0 or at least 2^-92: no step of the arithmetic meets a subnormal.
struct BucketBounds {
  float low = 0;
  float width = 0;
};

// Bounds of values from `low` to `high` (at most 2^118 in magnitude), rounded outward: neither
// `low` nor `high` is below low + 0 * step or above low + top * step, step = fp32(width / top).
BucketBounds BoundsOf(float low, float high, int top);

// A part of a message: whole buckets, the first of which has this number in it.
struct BucketRun {
  std::uint64_t first = 0;
  std::span<const BucketBounds> bounds;
};

struct RangeFormat {
  CodecId id = CodecId::kShifted;
  int bits = 8;
  std::uint32_t bucket = 1;
  EntropyCoder coder = EntropyCoder::kNone;
  std::optional<std::uint64_t> table;  // checksum of the levels
  std::string spec;
};

class RangeCodec : public PlainCodec {
 public:
  const std::string& spec() const final { return format_.spec; }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const final;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const final;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const final;

 protected:
  explicit RangeCodec(RangeFormat format);

  std::uint32_t bucket() const { return format_.bucket; }
  int top() const { return (1 << format_.bits) - 1; }

  // Codes of the values of a run, and what they stand for.
  virtual void Quantise(const float* x, const BucketRun& run, const RandomKey& key,
                        std::uint8_t* codes) const = 0;
  virtual void Levels(const std::uint8_t* codes, const BucketRun& run, const RandomKey& key,
                      float* x) const = 0;

 private:
  std::size_t HeadBytes() const;
  std::size_t BoundsBytes(std::size_t n) const;
  PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) const;
  Status ChooseBounds(const float* x, std::span<BucketBounds> bounds, std::byte* out) const;
  Status ReadBounds(const std::byte* from, std::span<BucketBounds> bounds) const;
  Status CheckHead(std::span<const std::byte> payload, SampleShape shape,
                   std::size_t samples) const;
  // Finds the codes behind the bounds: packed, or read into `codes`.
  Status OpenCodes(std::span<const std::byte> rest, std::size_t n, std::size_t samples,
                   std::vector<std::uint8_t>* codes) const;

  const RangeFormat format_;
  const BucketCode code_;  // packing only
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_RANGE_CODEC_H_
