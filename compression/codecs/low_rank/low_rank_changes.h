// LowRankChanges: changes of activations as two thin factors of whole numbers, entropy-coded.
//
// Between visits a sample's activation changes in few directions (tokens x hidden, 71 to 75 % of
// the energy in four of 128). What the factors leave out stays in the difference to m and comes
// back at the next visit, so a codec of changes may take few of them where one of activations
// diverges. State kept: none. Bytes on the wire: docs/WIRE.md, "Low-rank changes".
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_CHANGES_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_CHANGES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compression/codecs/codec_entry.h"
#include "compression/codecs/low_rank/change_factors.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

struct LowRankChangeOptions {
  std::uint32_t rank = 16;  // the most, 1 to kRankMax
  double energy = 0;        // the share of a sample's energy that ends the rank; 0: no such end
  int bits = 4;             // what the error of the factors is that of
  double skip = 0;          // samples below this part of the message's rms are not sent
};

class LowRankChanges final : public PlainCodec {
 public:
  explicit LowRankChanges(const LowRankChangeOptions& options);

  const std::string& spec() const override { return spec_; }
  bool divisible() const override { return false; }
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  const LowRankChangeOptions options_;
  const std::string spec_;
};

// What the name `lowrank` stands for inside of `delta=`.
const CodecEntry& LowRankChangesEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_CHANGES_H_
