// SampleCodec: turns one sample's activation (or activation gradient) into wire bytes and back.
//
// Unit of coding: one sample of a micro-batch, `tokens x hidden` fp32 values, row-major. A
// micro-batch payload is the concatenation of its samples' payloads, so that each sample can be a
// first visit or a delta on its own. Encoding may differ between machines; decoding is specified
// arithmetic (docs/WIRE.md) and gives the same bits everywhere. Pure: no clock, no I/O, no state;
// m goes in and comes out. Thread: any; one codec object may be used by several threads at once.

#ifndef SHOAL_COMPRESSION_CODEC_H_
#define SHOAL_COMPRESSION_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "common/status.h"

namespace shoal::compression {

struct SampleShape {
  std::uint32_t tokens = 0;  // 1 .. 2^20
  std::uint32_t hidden = 0;  // 1 .. 2^20

  std::size_t values() const { return std::size_t{tokens} * hidden; }
  bool operator==(const SampleShape&) const = default;
};

// Names the random numbers of one message. Unused by deterministic codecs.
struct RandomKey {
  std::uint64_t run = 0;
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  std::uint32_t boundary = 0;
  std::uint32_t direction = 0;  // 0 forward, 1 backward
  std::uint32_t sample = 0;     // position within the micro-batch
};

class SampleCodec {
 public:
  virtual ~SampleCodec() = default;

  // The canonical spec, every option present: "aqsgd:bits=4,bucket=128,first_visit=raw:dtype=fp16".
  virtual const std::string& spec() const = 0;

  // Whether decoding builds on m. Then Encode and Decode return the next m.
  virtual bool keeps_m() const = 0;

  // Most bytes that Encode writes for a sample of this shape.
  virtual std::size_t EncodedBytesMax(SampleShape shape) const = 0;

  // Encodes `values` (shape.values() of them) into `out` (at least EncodedBytesMax) and returns
  // the number of bytes written. `m` is the image both ends agreed on, empty on a first visit (and
  // always for codecs without m). With keeps_m(), `*next_m` becomes the image that Decode will
  // make from these bytes, to the bit. Non-finite values are an error (invalid argument): nothing
  // is sent.
  virtual Result<std::size_t> Encode(std::span<const float> values, SampleShape shape,
                                     std::span<const std::byte> m, const RandomKey& key,
                                     std::span<std::byte> out, Buffer* next_m) const = 0;

  // Decodes exactly `payload` (foreign bytes: every size, count and scale is checked; a wrong one
  // is an error, never a crash) into `values`. With keeps_m(), `*next_m` becomes the new image and
  // `values` are exactly what it stores. `key` is the one given to Encode. After an error `values`
  // hold nothing of use and `*next_m` is as it was.
  virtual Status Decode(std::span<const std::byte> payload, SampleShape shape,
                        std::span<const std::byte> m, const RandomKey& key, std::span<float> values,
                        Buffer* next_m) const = 0;
};

// Makes the codec that `spec` names; `hidden` is the model's hidden size (bucket defaults depend
// on it). Known: raw:dtype=fp32|fp16|bf16, direct:bits=2..8[,bucket=], aqsgd:bits=2..8[,bucket=]
// [,first_visit=raw:dtype=fp16|direct:bits=8...]. A nested spec has '/' in place of ',':
// first_visit=direct:bits=8/bucket=64. An unknown name, option or value is an error that lists
// what is allowed.
Result<std::shared_ptr<const SampleCodec>> MakeCodec(std::string_view spec, std::uint32_t hidden);

// Bytes of an fp16 m image of this shape, its header included (docs/WIRE.md, "m image").
std::size_t MImageBytes(SampleShape shape);
// Checks a foreign or stored image's header and size against `shape`.
Status CheckMImage(std::span<const std::byte> image, SampleShape shape);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODEC_H_
