// MessageCodec: turns the activations (or activation gradients) of a micro-batch into wire bytes
// and back.
//
// Unit of coding: one message, the samples of a micro-batch that travel together, so that a scale,
// a step or an entropy table can serve all of them. A sample is `tokens x hidden` fp32 values,
// row-major. Each sample of a message is a first visit or a change against its own m. Encoding may
// differ between machines; decoding is specified arithmetic (docs/WIRE.md) and gives the same bits
// everywhere. Pure: no clock, no I/O, no state; m goes in and comes out. Thread: any; one codec
// object may be used by several threads at once.

#ifndef SHOAL_COMPRESSION_API_CODEC_H_
#define SHOAL_COMPRESSION_API_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/token_changes.h"

namespace shoal::compression {

struct SampleShape {
  std::uint32_t tokens = 0;  // 1 .. 2^20
  std::uint32_t hidden = 0;  // 1 .. 2^20

  std::size_t values() const { return std::size_t{tokens} * hidden; }
  bool operator==(const SampleShape&) const = default;
};

// Names the random numbers of one message. Unused by deterministic codecs.
struct RandomKey {
  std::uint64_t seed = 0;  // of the run: runs of one seed repeat bit for bit
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  std::uint32_t boundary = 0;
  std::uint32_t direction = 0;  // 0 forward, 1 backward
};

// How a codec with m sends the samples that have one. The sender chooses per message.
enum class DeltaMode : std::uint8_t {
  kDelta = 0,      // the change, as the spec says
  kWideDelta = 1,  // the change with at least twice the bits, if there are so many
  kFull = 2,       // the activation itself; m starts anew from it
};

std::string_view DeltaModeName(DeltaMode mode);  // "delta", "wide delta", "full"

// One sample at the sender. `m` is the image that both ends agreed on, or the sender's residual;
// empty on a first visit (and always for codecs without either).
struct SampleToEncode {
  std::span<const float> values;
  std::span<const std::byte> m;
};

// One sample at the receiver. `values` empty: not wanted, its part of the message is passed over.
struct SampleToDecode {
  std::span<float> values;
  bool delta = false;            // the sender built on m
  std::span<const std::byte> m;  // the same image, if `delta` and wanted
};

struct CodingStats {
  // Sums of squares over a fixed share of the values (blocks chosen by position, the same for both
  // members), so that their ratio estimates that of the whole message.
  double values = 0;     // of x
  double errors = 0;     // of x - decoded
  TokenChanges changes;  // of all tokens of samples with an m

  void Add(const CodingStats& other);
  // ||x - decoded|| / ||x||; 0 where nothing was seen.
  double relative_error() const;
};

class StatefulCodec;

class MessageCodec {
 public:
  virtual ~MessageCodec() = default;

  // The canonical spec, every option present: "aqsgd:bits=4,bucket=128,first_visit=raw:dtype=fp16".
  virtual const std::string& spec() const = 0;

  // Whether decoding builds on m. Then Encode and Decode return the next m.
  virtual bool keeps_m() const = 0;

  // Whether the sender alone keeps per sample what it did not send (error feedback of gradients).
  // Encode then takes and returns that residual's image in the place of m; Decode needs none.
  virtual bool keeps_residual() const { return false; }

  // The same codec for senders that remember something per link (stateful_codec.h), or null. Encode
  // is then what it does without any memory; Decode takes the messages of both.
  virtual const StatefulCodec* stateful() const { return nullptr; }

  // Whether the sender may leave DeltaMode::kDelta by itself (delta_guard.h).
  virtual bool guarded() const { return false; }

  // Whether a message may as well travel as several, each with a range of every sample's tokens:
  // of no more error and of nearly as many bytes. False where scales, widths, a selection or a
  // steered step mean all tokens of a sample.
  virtual bool divisible() const = 0;

  // Most bytes that Encode writes for `samples` samples of this shape.
  virtual std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const = 0;

  // Bytes of an m image or a residual's (0 for codecs without either), header included
  // (docs/WIRE.md, "m image", "Residual image").
  virtual std::size_t MImageBytes(SampleShape shape) const = 0;
  // Checks a foreign or stored image's header and size against `shape`.
  virtual Status CheckMImage(std::span<const std::byte> image, SampleShape shape) const = 0;

  // Encodes the samples (at least one, of shape.values() each) into `out` (at least
  // EncodedBytesMax) and returns the number of bytes written. With keeps_m(), `next_m[i]` becomes
  // the image that Decode will make of sample i, to the bit; with keeps_residual(), the image of
  // what was not sent of it, and `stats` compares with values plus residual. With `mode` kFull
  // every sample is decoded without m, whether it was given here or not. `stats` may be null.
  // Values that are not finite are an error (invalid argument): nothing is sent, next_m is as it
  // was.
  virtual Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                                     const RandomKey& key, DeltaMode mode, std::span<std::byte> out,
                                     std::span<Buffer> next_m, CodingStats* stats) const = 0;

  // Decodes exactly `payload` (foreign bytes: every size, count and scale is checked; a wrong one
  // is an error, never a crash). With keeps_m(), `next_m[i]` becomes the new image of every wanted
  // sample i. `key` is the one given to Encode. After an error no value and no image is of use.
  virtual Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                        SampleShape shape, const RandomKey& key,
                        std::span<Buffer> next_m) const = 0;

  // How the samples with an m travelled in a payload that Decode took.
  virtual DeltaMode SentMode(std::span<const std::byte> payload) const {
    static_cast<void>(payload);
    return DeltaMode::kDelta;
  }
};

// Makes the codec that `spec` names; `hidden` is the model's hidden size (bucket defaults depend
// on it). The grammar and every codec's options: docs/algorithms/codec-specs.md. An unknown
// name, option or value is an error that lists what is allowed.
Result<std::shared_ptr<const MessageCodec>> MakeCodec(std::string_view spec, std::uint32_t hidden);

// The codec whose decoded values are the fp32 values themselves.
inline constexpr char kLosslessCodec[] = "raw:dtype=fp32";

// What a codec is, whatever the model.
struct CodecTraits {
  bool exact = false;          // decodes to the values, rounded to a number format
  bool lossless = false;       // decodes to the fp32 values themselves
  bool unbiased = false;       // decoded values are right on average
  bool keeps_m = false;        // MessageCodec::keeps_m
  bool feedback = false;       // gradients in this spec may take error feedback
  bool entropy_coder = false;  // `+zstd` or `+rans` may follow the name
  bool device_form = false;    // MakeDeviceCodec makes it, too (device/device_codec.h)
};
// An error if no codec has this name; options are not checked.
Result<CodecTraits> TraitsOf(std::string_view spec);

// Error, with what to use instead, if a codec cannot code activations (forward) or gradients
// (backward).
Status CheckDirections(const MessageCodec& forward, const MessageCodec& backward);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_CODEC_H_
