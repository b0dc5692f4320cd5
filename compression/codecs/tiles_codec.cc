#include "compression/codecs/tiles_codec.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "compression/codecs/adaptive_tiles.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/direct_codec.h"
#include "compression/simd/half.h"
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

TilesCodec::TilesCodec(const BucketCode& code, EntropyCoder stage)
    : format_{code, stage,
              "tiles" + std::string(EntropySuffix(stage)) + ":" +
                  TileOptions(code.rule(), code.bucket()),
              CodecId::kTiles} {}

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

namespace {

constexpr std::uint32_t kTileDefault = 64;

// The largest power of two that divides the hidden size, up to the default, unless the spec names
// one.
Result<std::uint32_t> TileOption(const CodecSpec& spec, std::uint32_t hidden) {
  const std::string_view text = spec.Option("tile");
  if (text.empty()) return LargestTile(hidden, kTileDefault);
  const auto number = SpecNumber(text);
  if (number && std::has_single_bit(*number) && *number <= LargestTile(hidden, kTileMax)) {
    return *number;
  }
  return SpecError(spec, "tile=" + std::string(text) +
                             "; allowed are powers of two that divide the hidden size " +
                             std::to_string(hidden) + ", here 1 to " +
                             std::to_string(LargestTile(hidden, kTileMax)));
}

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const LevelRule parsed, RuleOption(spec, Levels::kAffine));
  const LevelRule rule = parsed.WithLeastScale(kTileScaleBitsMin);
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t tile, TileOption(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder stage, EntropyOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t adaptive, ChoiceOption(spec, "adaptive", {"off", "on"}));
  if (adaptive == 0) {
    return PlainPointer(std::make_shared<const TilesCodec>(BucketCode(rule, tile), stage));
  }
  if (stage != EntropyCoder::kNone || rule.levels() == Levels::kMidTread ||
      rule.scale() == ScaleRule::kOptimal || tile < kAdaptiveTileMin) {
    return SpecError(spec,
                     "adaptive=on needs a tile of 8 or more, levels=affine or midrise and "
                     "scale=absmax, and takes no entropy coder");
  }
  return PlainPointer(std::make_shared<const AdaptiveTilesCodec>(rule, tile));
}

std::string_view NoFeedback(const CodecSpec& spec) {
  const std::string_view levels = spec.Option("levels");
  const std::string_view rounding = RoundingForbidsFeedback(spec);
  return !rounding.empty() ? rounding
                           : AffineForbidsFeedback(spec, levels.empty() || levels == "affine");
}

constexpr std::string_view kKeys[] = {"bits",     "tile",     "levels",  "scale",
                                      "rounding", "adaptive", "feedback"};

}  // namespace

const CodecEntry& TilesEntry() {
  static constexpr CodecEntry kEntry{
      .name = "tiles",
      .usage = "tiles:bits=1..8[,tile=N][,levels=][,scale=][,rounding=][,adaptive=on]",
      .keys = kKeys,
      .entropy_coder = true,
      .make = Make,
      .no_feedback = NoFeedback,
      .unbiased = StochasticIsUnbiased,
  };
  return kEntry;
}

}  // namespace shoal::compression
