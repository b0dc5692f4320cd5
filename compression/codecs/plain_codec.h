// PlainCodec: codes samples without m. Whole messages (raw, direct, tiles, ...), the changes and
// the first visits of `aqsgd` are sections made by one.
//
// Internal to compression/. Pure. Thread: any; one object may be used by several threads at once.

#ifndef SHOAL_COMPRESSION_CODECS_PLAIN_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_PLAIN_CODEC_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "compression/api/codec.h"

namespace shoal::compression {

struct CodecEntry;  // codec_entry.h

// Tells a class of codecs from the others by its address, for what is kept beside them (their forms
// on a device).
struct CodecKind {
  std::string_view name;
};

class PlainCodec {
 public:
  virtual ~PlainCodec() = default;

  // The canonical spec, every option present.
  virtual const std::string& spec() const = 0;

  // The kind of its class; null: nothing is kept beside it.
  virtual const CodecKind* kind() const { return nullptr; }

  // As MessageCodec.
  virtual bool divisible() const { return true; }

  // The same codec with at least twice the bits a value, up to the most that it has; null: it has
  // no such form.
  virtual std::shared_ptr<const PlainCodec> Wider() const { return nullptr; }

  // Most bytes of a section of `samples` samples.
  virtual std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const = 0;

  // Writes the samples (at least one, shape.values() each) as one section to `out` (at least
  // EncodedBytesMax) and returns its bytes. `decoded` is empty, or has one span per sample that
  // becomes what Decode will give, to the bit; it may be the storage of the samples themselves.
  // Non-finite values are an error.
  virtual Result<std::size_t> Encode(std::span<const std::span<const float>> samples,
                                     SampleShape shape, const RandomKey& key,
                                     std::span<std::byte> out,
                                     std::span<const std::span<float>> decoded) const = 0;

  // Whether the error of changes follows the values that they lead to, not the changes.
  virtual bool follows_values() const { return false; }
  // Encode of changes, `values` what they lead to, in the same order; empty: changes are coded as
  // values are.
  virtual Result<std::size_t> EncodeChanges(std::span<const std::span<const float>> changes,
                                            std::span<const std::span<const float>> /*values*/,
                                            SampleShape shape, const RandomKey& key,
                                            std::span<std::byte> out,
                                            std::span<const std::span<float>> decoded) const {
    return Encode(changes, shape, key, out, decoded);
  }

  // Decodes exactly one section. An empty span: that sample is passed over.
  virtual Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                        std::span<const std::span<float>> samples) const = 0;
};

// A codec whose messages are one section each.
std::shared_ptr<const MessageCodec> NewPlainMessageCodec(std::shared_ptr<const PlainCodec> codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_PLAIN_CODEC_H_
