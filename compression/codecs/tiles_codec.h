// TilesCodec: rotates tiles of a token, then codes each by its own range, without any history
// (the idea of TAH-Quant, arXiv 2506.01352: tile-wise quantisation after a Hadamard rotation).
//
// A tile is a power of two of adjacent values of one token. The rotation spreads a value that lies
// far out over its whole tile, so that the range shrinks: at 2 bits an activation's error falls
// from .59 to .40 of its norm. State kept: none. Bytes on the wire: 16 + the scales of every tile
// + b bits per value, as DirectCodec with a bucket of `tile`. Numerics: the rotation is one fp32
// addition or subtraction at a time in a fixed order (tile_kernels.h).

#ifndef SHOAL_COMPRESSION_CODECS_TILES_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_TILES_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "compression/codecs/bucket_section.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

inline constexpr std::uint32_t kTileMax = 128;
// Smaller bounds count as zero: sums of levels then never become subnormal.
inline constexpr std::uint16_t kTileScaleBitsMin = 37 << 7;  // 2^-90

// The largest power of two that divides `hidden`, at most `most`.
std::uint32_t LargestTile(std::uint32_t hidden, std::uint32_t most);

// What the values of a tile are multiplied by before they are rotated, and rotated back: powers of
// two whose product is 1 / tile.
float TileFactor(std::uint32_t tile);
float TileBackFactor(std::uint32_t tile);

class TilesCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"tiles"};

  // `code`: its bucket is the tile.
  TilesCodec(const BucketCode& code, EntropyCoder coder);

  const std::string& spec() const override { return format_.spec; }
  const CodecKind* kind() const override { return &kKind; }
  const BucketFormat& format() const { return format_; }
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return format_.BytesMax(shape, samples);
  }
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  BucketFormat format_;
};

// "bits=4,tile=64" and the options of the rule that are not the defaults (affine, absmax, nearest).
std::string TileOptions(const LevelRule& rule, std::uint32_t tile);

const CodecEntry& TilesEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_TILES_CODEC_H_
