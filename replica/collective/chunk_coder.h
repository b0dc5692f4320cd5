// ChunkCoder: what turns the values of a chunk into payload bytes and back, for exchanges inside a
// stage group.
//
// Stateless; error feedback is the exchange's. Decoding gives the same bits on every machine. Pure.
// Thread: any; one coder may be used by several threads at once.

#ifndef SHOAL_REPLICA_COLLECTIVE_CHUNK_CODER_H_
#define SHOAL_REPLICA_COLLECTIVE_CHUNK_CODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/api/value_home.h"

namespace shoal::collective {

class ChunkCoder {
 public:
  virtual ~ChunkCoder() = default;

  // The canonical spec, every option present.
  virtual const std::string& spec() const = 0;
  // Decoded values equal the encoded ones to the bit, whatever they are.
  virtual bool exact() const { return false; }
  // Most bytes of a payload of `values` values; grows with them.
  virtual std::size_t BytesMax(std::size_t values) const = 0;
  // Writes the payload of `values` (at least one) to `out` (at least BytesMax) and returns its
  // bytes. Values that are not finite are an error, unless exact().
  virtual Result<std::size_t> Encode(std::span<const float> values,
                                     const compression::RandomKey& key,
                                     std::span<std::byte> out) const = 0;
  // Decodes exactly `payload` (foreign bytes, checked) into `values`. `key` as in Encode.
  virtual Status Decode(std::span<const std::byte> payload, const compression::RandomKey& key,
                        std::span<float> values) const = 0;

  // Where `values` of all calls lie; payloads are the host's everywhere.
  virtual const compression::ValueHome& home() const { return *compression::HostValues(); }

  // What is done to a chunk beside that, here from the two above; a coder that needs fewer passes
  // over memory has its own, with the same bits.

  // Encodes values + before (empty: zeros). `next` gets what the payload does not hold of it, and
  // `decoded`, if not empty, what it does. On an error both hold nothing of use.
  virtual Result<std::size_t> EncodeKeeping(std::span<const float> values,
                                            std::span<const float> before,
                                            const compression::RandomKey& key,
                                            std::span<std::byte> out, std::span<float> next,
                                            std::span<float> decoded) const;
  // sum += decoded values x `factor`, rounded in between; where `first`, sum is what is added.
  virtual Status DecodeOnto(std::span<const std::byte> payload, const compression::RandomKey& key,
                            float factor, bool first, std::span<float> sum) const;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_CHUNK_CODER_H_
