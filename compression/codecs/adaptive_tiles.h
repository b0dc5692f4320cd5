// AdaptiveTilesCodec: `tiles` whose tiles have their own widths, by their range (TAH-Quant,
// arXiv 2506.01352, gives tiles 3 or 4 bits; here four widths share a budget).
//
// A tile's error goes with the square of its step, so each further bit of a tile has a known gain;
// the bits of a message go where the gains are largest. State kept: none. Bytes on the wire: as
// TilesCodec, plus 2 bits a tile. Numerics: as TilesCodec, with the tile's own width.

#ifndef SHOAL_COMPRESSION_CODECS_ADAPTIVE_TILES_H_
#define SHOAL_COMPRESSION_CODECS_ADAPTIVE_TILES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compression/api/sample_layout.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/plain_codec.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {

inline constexpr std::uint32_t kAdaptiveTileMin = 8;

// The smallest width of a message of `bits` a value; the largest is 3 more.
constexpr int LeastTileWidth(int bits) { return bits < 3 ? 1 : bits > 7 ? 5 : bits - 2; }

// Widths for tiles of these ranges, `bits` on average: of all steps from a width to the next, the
// ones that lower the sum of squared steps most.
std::vector<std::uint8_t> TileWidths(std::span<const float> ranges, int bits);

class AdaptiveTilesCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"adaptive tiles"};

  // `rule`: mid-rise or affine, absmax, with the least scale of tiles; its bits are the average.
  // `tile`: a power of two, kAdaptiveTileMin .. kTileMax.
  AdaptiveTilesCodec(const LevelRule& rule, std::uint32_t tile);

  // Where the parts of a section lie; header | scales | widths | codes. Its size does not depend on
  // the widths: they share a budget.
  struct Layout {
    std::size_t tiles, widths, codes, end;
  };

  const LevelRule& rule() const { return rule_; }
  std::uint32_t tile() const { return tile_; }
  std::shared_ptr<const PlainCodec> Wider() const override {
    return std::make_shared<const AdaptiveTilesCodec>(rule_.WithBits(WiderBits(rule_.bits())),
                                                      tile_);
  }
  // Of a section of so many values.
  Layout LayoutOf(std::size_t values) const;
  PayloadHeader HeaderFor(std::size_t values) const;
  // All checks of a foreign section.
  Status CheckSection(std::span<const std::byte> payload, std::size_t values) const;

  const std::string& spec() const override { return spec_; }
  const CodecKind* kind() const override { return &kKind; }
  bool divisible() const override { return false; }  // widths are weighed over the whole message
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  LevelRule RuleOf(int width) const;
  // The scales of rotated values, and the range of each tile.
  void ChooseScales(std::span<const float> rotated, std::byte* scales,
                    std::span<float> ranges) const;
  // The values that a tile's codes stand for, rotated back.
  void ReadTile(const std::byte* scale, int width, const std::byte* packed, float* values) const;

  LevelRule rule_;
  std::uint32_t tile_;
  std::string spec_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_ADAPTIVE_TILES_H_
