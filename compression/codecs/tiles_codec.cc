#include "compression/codecs/tiles_codec.h"
#include "compression/codecs/codec_options.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "common/half.h"
#include "compression/codecs/direct_codec.h"
#include "compression/simd/kernels.h"
#include "compression/simd/tile_kernels.h"

namespace shoal::compression {

std::uint32_t LargestTile(std::uint32_t hidden, std::uint32_t most) {
  std::uint32_t tile = 1;
  while (2 * tile <= most && hidden % (2 * tile) == 0) tile *= 2;
  return tile;
}

float TileFactor(std::uint32_t tile) { return PowerOfTwo(-(std::countr_zero(tile) + 1) / 2); }

float TileBackFactor(std::uint32_t tile) { return PowerOfTwo(-(std::countr_zero(tile) / 2)); }

std::string TileOptions(const LevelRule& rule, std::uint32_t tile) {
  return "bits=" + std::to_string(rule.bits()) + ",tile=" + std::to_string(tile) +
         RuleOptions(rule, Levels::kAffine);
}

TilesCodec::TilesCodec(const BucketCode& code, EntropyCoder coder)
    : format_{code, coder,
              "tiles" + std::string(EntropySuffix(coder)) + ":" +
                  TileOptions(code.rule(), code.bucket()),
              CodecId::kTiles} {}

std::shared_ptr<const PlainCodec> TilesCodec::Wider() const {
  const BucketCode& code = format_.code;
  const LevelRule rule = code.rule().WithBits(WiderBits(code.bits()));
  return std::make_shared<const TilesCodec>(BucketCode(rule, code.bucket()), format_.coder);
}

Result<std::size_t> TilesCodec::Encode(std::span<const std::span<const float>> samples,
                                       SampleShape shape, const RandomKey& key,
                                       std::span<std::byte> out,
                                       std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.code.bucket(), shape, spec()));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  const std::size_t n = shape.values();
  const std::size_t block = format_.code.BlockValues(n);
  const std::uint32_t tile = format_.code.bucket();
  const float factor = TileFactor(tile);
  std::vector<float> rotated(block);
  BucketWriter writer(format_, shape, samples.size(), key, out);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t first = 0; first < n; first += block) {
      const std::size_t count = std::min(block, n - first);
      const float* x = samples[i].data() + first;
      SHOAL_RETURN_IF_ERROR(CheckMagnitude(AbsMaxBits(x, count), kMagnitudeMax, spec()));
      RotateTiles(x, count, tile, factor, rotated.data());
      SHOAL_RETURN_IF_ERROR(writer.Block(i, first, count, rotated.data(), kDeltaMax));
      if (decoded.empty()) continue;
      float* to = decoded[i].data() + first;
      writer.Levels(to);
      RotateTiles(to, count, tile, TileBackFactor(tile), to);
    }
  }
  return writer.Finish();
}

Status TilesCodec::Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey&,
                          std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.code.bucket(), shape, spec()));
  const std::size_t n = shape.values();
  const std::size_t block = format_.code.BlockValues(n);
  const std::uint32_t tile = format_.code.bucket();
  BucketReader reader(format_, shape, samples.size());
  SHOAL_RETURN_IF_ERROR(reader.Open(payload));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t first = 0; first < samples[i].size(); first += block) {
      const std::size_t count = std::min(block, n - first);
      float* to = samples[i].data() + first;
      reader.Levels(i, first, count, to);
      RotateTiles(to, count, tile, TileBackFactor(tile), to);
    }
  }
  return Status::Ok();
}

}  // namespace shoal::compression
