// What `tiles` registers: its options, and which of its two codecs they ask for.

#include <bit>
#include <string>

#include "compression/codecs/adaptive_tiles.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/tiles_codec.h"

namespace shoal::compression {
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
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t adaptive, ChoiceOption(spec, "adaptive", {"off", "on"}));
  if (adaptive == 0) {
    return PlainPointer(std::make_shared<const TilesCodec>(BucketCode(rule, tile), coder));
  }
  if (coder != EntropyCoder::kNone || rule.levels() == Levels::kMidTread ||
      rule.scale() == ScaleRule::kOptimal || tile < kAdaptiveTileMin) {
    return SpecError(spec,
                     "adaptive=on needs a tile of 8 or more, levels=affine or midrise and "
                     "scale=absmax, and takes no entropy coder");
  }
  return PlainPointer(std::make_shared<const AdaptiveTilesCodec>(rule, tile));
}

bool IsAffine(const CodecSpec& spec) {
  const std::string_view levels = spec.Option("levels");
  return levels.empty() || levels == "affine";
}

std::string_view NoFeedback(const CodecSpec& spec) {
  const std::string_view rounding = RoundingForbidsFeedback(spec);
  return !rounding.empty() ? rounding : AffineForbidsFeedback(spec, IsAffine(spec));
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
      .device_form = true,
      .make_plain = Make,
      .no_feedback = NoFeedback,
      .no_changes =
          [](const CodecSpec& spec) { return OneBitForbidsChanges(spec, IsAffine(spec)); },
      .unbiased = StochasticIsUnbiased,
  };
  return kEntry;
}

}  // namespace shoal::compression
