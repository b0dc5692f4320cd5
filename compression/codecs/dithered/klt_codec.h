// KltCodec: turns a message's tokens onto their leading directions before they are rounded
// (docs/algorithms/klt.md).
//
// Tokens of a message share directions, those of changes and of gradients alike. One step for all
// values of an orthogonal transform costs the fewest bits for its error (Goyal, "Theoretical
// foundations of transform coding", IEEE Signal Processing Magazine 18, 2001), and that error is as
// it would be without: uniform per value, unbiased. State kept: none, each message brings its
// reflectors. Bytes on the wire: docs/WIRE.md, "klt". Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_KLT_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_KLT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/klt/reflectors.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

inline constexpr std::uint32_t kKltRankMax = 256;

class KltCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"klt"};
  const CodecKind* kind() const override { return &kKind; }

  // `inner` rounds the turned values; its goal is a step or an error. `rank`: the most directions,
  // 1 to kKltRankMax.
  KltCodec(std::shared_ptr<const DitheredCodec> inner, std::uint32_t rank);

  const std::string& spec() const override { return spec_; }
  // The directions are those of all tokens.
  bool divisible() const override { return false; }
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override {
    return EncodeChanges(samples, {}, shape, key, out, decoded);
  }
  bool follows_values() const override { return inner_->follows_values(); }
  Result<std::size_t> EncodeChanges(std::span<const std::span<const float>> changes,
                                    std::span<const std::span<const float>> values,
                                    SampleShape shape, const RandomKey& key,
                                    std::span<std::byte> out,
                                    std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

  // What Encode and Decode do besides touching values.

  const DitheredCodec& inner() const { return *inner_; }
  std::uint32_t rank_most() const { return rank_; }
  // Whether values that are rounded with this step may be turned. `energies`: the tokens' sums of
  // squares.
  static bool MayTurn(std::span<const double> energies, float step);
  // The values behind the leading directions draw other dither than these.
  static RandomKey KeyOfRest(RandomKey key);

  struct SectionBytes {
    std::size_t leading = 0, rest = 0;
  };
  // Writes what stands before the sections and returns its bytes; then how large the sections came
  // out, and returns the bytes of all.
  static std::size_t WriteStart(const ReflectorCodes& codes, SampleShape shape, std::size_t samples,
                                std::span<std::byte> out);
  static std::size_t WriteSizes(std::size_t start, const SectionBytes& bytes,
                                std::span<std::byte> out);

  // A foreign message, its sections unread but for their steps.
  struct Parts {
    ReflectorCodes codes;
    std::span<const std::byte> leading, rest;  // rank 0: `rest` has all values
  };
  Result<Parts> Open(std::span<const std::byte> payload, SampleShape shape,
                     std::size_t samples) const;

 private:
  Result<SectionBytes> EncodeTurned(const Reflectors& turn, float step,
                                    std::span<const std::span<const float>> samples,
                                    SampleShape shape, const RandomKey& key,
                                    std::span<std::byte> out,
                                    std::span<const std::span<float>> decoded) const;
  Result<float> StepOf(std::span<const double> energies,
                       std::span<const std::span<const float>> values, SampleShape shape,
                       const RandomKey& key) const;
  Status DecodeTurned(const Parts& parts, SampleShape shape, const RandomKey& key,
                      std::span<const std::span<float>> samples) const;

  const std::shared_ptr<const DitheredCodec> inner_;
  const std::uint32_t rank_;
  const std::string spec_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_KLT_CODEC_H_
