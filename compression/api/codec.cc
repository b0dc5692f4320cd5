// MakeCodec: which codec a spec names (docs/ALGORITHMS.md, "Codec specs").

#include "compression/api/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "compression/api/codec_spec.h"
#include "compression/codecs/adaptive_tiles.h"
#include "compression/codecs/aqsgd_codec.h"
#include "compression/codecs/bucket_code.h"
#include "compression/codecs/channel_codec.h"
#include "compression/codecs/cocktail_codec.h"
#include "compression/codecs/codec_parts.h"
#include "compression/codecs/direct_codec.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/feedback_codec.h"
#include "compression/codecs/learned_codec.h"
#include "compression/codecs/low_rank.h"
#include "compression/codecs/low_rank_codec.h"
#include "compression/codecs/plain_codec.h"
#include "compression/codecs/raw_codec.h"
#include "compression/codecs/shifted_codec.h"
#include "compression/codecs/tiles_codec.h"
#include "compression/codecs/topk_codec.h"

namespace shoal::compression {
namespace {

using PlainPointer = std::shared_ptr<const PlainCodec>;

constexpr std::uint32_t kHiddenMax = 1U << 20;
constexpr int kBitsMax = 8;
constexpr std::uint32_t kDefaultTile = 64;
constexpr std::uint32_t kDefaultTopKBucket = 128;
constexpr std::uint32_t kDefaultRangeBucket = 1024;
constexpr std::uint32_t kStrideMax = 10000;
constexpr char kDefaultElse[] = "dithered:step=0.5";
constexpr char kKnown[] =
    "raw:dtype=fp32|fp16|bf16, "
    "direct:bits=1..8[,bucket=N|channel][,levels=][,scale=][,rounding=], "
    "tiles:bits=1..8[,tile=N][,levels=][,scale=][,rounding=][,adaptive=on], "
    "topk:ratio=0.0001..1,bits=1..8[,bucket=N], dithered:step=N|rate=N|error=N, "
    "shifted:bits=1..8[,bucket=N], learned:bits=1..5[,bucket=N][,levels=HEX], "
    "cocktail:stride=1..10000,ratio=0.0001..1,bits=1..8[,bucket=N], "
    "lowrank:[rank=N][,epilogue=][,lazy=][,factors=][,else=SPEC], "
    "aqsgd:bits=1..8[,as direct][,m=16|8|4|2][,first_visit=SPEC] or aqsgd:delta=SPEC; "
    "+zstd or +rans behind direct, tiles, topk, shifted, learned, cocktail or aqsgd adds an "
    "entropy stage; "
    "feedback=on in "
    "direct, tiles or topk is error feedback for gradients";

// `usual`: the levels of a spec that names none.
Result<LevelRule> ParseRule(const CodecSpec& spec, Levels usual) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kBitsMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t levels,
                         ChoiceOption(spec, "levels", {"midrise", "midtread", "affine"}));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t scale,
                         ChoiceOption(spec, "scale", {"absmax", "optimal"}));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t rounding,
                         ChoiceOption(spec, "rounding", {"nearest", "stochastic"}));
  const Levels named = spec.Option("levels").empty() ? usual : static_cast<Levels>(levels);
  const LevelRule rule(static_cast<int>(bits), named, static_cast<ScaleRule>(scale),
                       static_cast<Rounding>(rounding));
  if (rule.levels() == Levels::kMidTread && bits == 1) {
    return SpecError(spec.text, "levels=midtread with bits=1 has only the level 0; use midrise");
  }
  if (rule.levels() == Levels::kAffine && rule.scale() == ScaleRule::kOptimal) {
    return SpecError(spec.text, "scale=optimal needs levels=midrise or levels=midtread");
  }
  return rule;
}

Result<std::uint32_t> ParseBucket(const CodecSpec& spec, std::uint32_t hidden) {
  const std::string_view text = spec.Option("bucket");
  if (text.empty()) return DefaultBucket(hidden);
  const auto number = SpecNumber(text);
  if (number && hidden % *number == 0) return *number;
  return SpecError(spec.text, "bucket=" + std::string(text) + " does not divide the hidden size " +
                                  std::to_string(hidden) + "; allowed are channel, " +
                                  BucketsAllowed(hidden));
}

Result<PlainPointer> MakeRaw(const CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"dtype"}));
  const std::string_view type = spec.Option("dtype");
  if (type == "fp32") return NewRawCodec(ValueType::kFp32);
  if (type == "fp16") return NewRawCodec(ValueType::kFp16);
  if (type == "bf16") return NewRawCodec(ValueType::kBf16);
  return SpecError(spec.text,
                   (type.empty() ? std::string("no dtype given") : "dtype=" + std::string(type)) +
                       "; allowed are dtype=fp32, dtype=fp16, dtype=bf16");
}

// The codec of `bucket=channel`.
Result<PlainPointer> MakeChannel(const CodecSpec& spec) {
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  if (spec.Option("levels") != "authors") {
    SHOAL_ASSIGN_OR_RETURN(const LevelRule rule, ParseRule(spec, Levels::kMidRise));
    return NewChannelCodec(rule, *stage);
  }
  if (!spec.Option("scale").empty() || !spec.Option("rounding").empty()) {
    return SpecError(spec.text, "levels=authors fixes scale and rounding; leave them out");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 2, kBitsMax, std::nullopt));
  return NewAuthorsChannelCodec(static_cast<int>(bits), *stage);
}

// The bucket codec of the options that `direct` and `aqsgd` share.
Result<std::shared_ptr<const DirectCodec>> MakeBuckets(const CodecSpec& spec,
                                                       std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const LevelRule rule, ParseRule(spec, Levels::kMidRise));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, ParseBucket(spec, hidden));
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  return std::make_shared<const DirectCodec>(BucketCode(rule, bucket), *stage);
}

Result<PlainPointer> MakeDithered(const CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  if (spec.options.size() != 1) {
    return SpecError(spec.text, "give one of step=, rate= (bits a value) and error=");
  }
  const auto& [key, value] = spec.options.front();
  Result<PlainPointer> made = MakeDitheredCodec(key, value);
  return made.ok() ? made : SpecError(spec.text, std::string(made.status().message()));
}

// The largest power of two that divides the hidden size, 64 at most, unless the spec names one.
Result<std::uint32_t> ParseTile(const CodecSpec& spec, std::uint32_t hidden) {
  const std::string_view text = spec.Option("tile");
  if (text.empty()) return LargestTile(hidden, kDefaultTile);
  const auto number = SpecNumber(text);
  if (number && std::has_single_bit(*number) && *number <= LargestTile(hidden, kTileMax)) {
    return *number;
  }
  return SpecError(spec.text, "tile=" + std::string(text) +
                                  "; allowed are powers of two that divide the hidden size " +
                                  std::to_string(hidden) + ", here 1 to " +
                                  std::to_string(LargestTile(hidden, kTileMax)));
}

Result<PlainPointer> MakeTiles(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_RETURN_IF_ERROR(
      CheckKeys(spec, {"bits", "tile", "levels", "scale", "rounding", "adaptive", "feedback"}));
  SHOAL_ASSIGN_OR_RETURN(const LevelRule parsed, ParseRule(spec, Levels::kAffine));
  const LevelRule rule = parsed.WithLeastScale(kTileScaleBitsMin);
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t tile, ParseTile(spec, hidden));
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t adaptive, ChoiceOption(spec, "adaptive", {"off", "on"}));
  if (adaptive == 0) {
    return PlainPointer(std::make_shared<const TilesCodec>(BucketCode(rule, tile), *stage));
  }
  if (*stage != EntropyStage::kNone || rule.levels() == Levels::kMidTread ||
      rule.scale() == ScaleRule::kOptimal || tile < kAdaptiveTileMin) {
    return SpecError(spec.text,
                     "adaptive=on needs a tile of 8 or more, levels=affine or midrise and "
                     "scale=absmax, and takes no entropy stage");
  }
  return PlainPointer(std::make_shared<const AdaptiveTilesCodec>(rule, tile));
}

Result<PlainPointer> MakeTopK(const CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"ratio", "bits", "bucket", "feedback"}));
  SHOAL_ASSIGN_OR_RETURN(const double ratio, FractionOption(spec, "ratio", 1e-4, 1, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kBitsMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket,
                         NumberOption(spec, "bucket", 1, kHiddenMax, kDefaultTopKBucket));
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  return PlainPointer(
      std::make_shared<const TopKCodec>(ratio, static_cast<int>(bits), bucket, *stage));
}

// The largest divisor of the hidden size, 1024 at most, unless the spec names one.
Result<std::uint32_t> ParseRangeBucket(const CodecSpec& spec, std::uint32_t hidden) {
  if (!spec.Option("bucket").empty()) {
    const auto number = SpecNumber(spec.Option("bucket"));
    if (number && hidden % *number == 0) return *number;
    return SpecError(spec.text, "bucket=" + std::string(spec.Option("bucket")) +
                                    " does not divide the hidden size " + std::to_string(hidden) +
                                    "; allowed are " + BucketsAllowed(hidden));
  }
  std::uint32_t bucket = std::min(hidden, kDefaultRangeBucket);
  while (hidden % bucket != 0) --bucket;
  return bucket;
}

Result<PlainPointer> MakeShifted(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"bits", "bucket", "feedback"}));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kBitsMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, ParseRangeBucket(spec, hidden));
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  return NewShiftedCodec(static_cast<int>(bits), bucket, *stage);
}

Result<PlainPointer> MakeLearned(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"bits", "bucket", "levels", "feedback"}));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kLearnedBitsMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, ParseRangeBucket(spec, hidden));
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  const auto width = static_cast<int>(bits);
  if (spec.Option("levels").empty()) return NewLearnedCodec(UniformLevels(width), bucket, *stage);
  Result<LevelTable> levels = ParseLevels(spec.Option("levels"), width);
  if (!levels.ok()) return SpecError(spec.text, std::string(levels.status().message()));
  return NewLearnedCodec(std::move(*levels), bucket, *stage);
}

Result<PlainPointer> MakeCocktail(const CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"stride", "ratio", "bits", "bucket", "feedback"}));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t stride,
                         NumberOption(spec, "stride", 1, kStrideMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const double ratio, FractionOption(spec, "ratio", 1e-4, 1, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kBitsMax, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket,
                         NumberOption(spec, "bucket", 1, kHiddenMax, kDefaultTopKBucket));
  Result<EntropyStage> stage = ParseEntropyStage(spec.stage);
  if (!stage.ok()) return SpecError(spec.text, std::string(stage.status().message()));
  return NewCocktailCodec(stride, ratio, static_cast<int>(bits), bucket, *stage);
}

// Nothing if `spec` names no codec without m.
Result<PlainPointer> MakePlain(const CodecSpec& spec, std::uint32_t hidden) {
  if (spec.name == "raw") return MakeRaw(spec);
  if (spec.name == "direct") {
    SHOAL_RETURN_IF_ERROR(
        CheckKeys(spec, {"bits", "bucket", "levels", "scale", "rounding", "feedback"}));
    if (spec.Option("bucket") == "channel") return MakeChannel(spec);
    SHOAL_ASSIGN_OR_RETURN(const auto direct, MakeBuckets(spec, hidden));
    return PlainPointer(direct);
  }
  if (spec.name == "dithered") return MakeDithered(spec);
  if (spec.name == "tiles") return MakeTiles(spec, hidden);
  if (spec.name == "topk") return MakeTopK(spec);
  if (spec.name == "shifted") return MakeShifted(spec, hidden);
  if (spec.name == "learned") return MakeLearned(spec, hidden);
  if (spec.name == "cocktail") return MakeCocktail(spec);
  return PlainPointer();
}

Status NoFeedback(std::string_view spec) {
  return SpecError(spec,
                   "aqsgd needs no feedback, for what its changes leave out of m is in the next "
                   "change; leave feedback out");
}

// Feedback needs a residual that stays bounded: each message must leave less than it was given.
Status CheckFeedback(const CodecSpec& spec) {
  if (spec.name == "raw") {
    return SpecError(spec.text, "raw leaves nothing to feed back; leave feedback out");
  }
  if (spec.name == "dithered" || spec.name == "shifted" ||
      spec.Option("rounding") == "stochastic") {
    return SpecError(spec.text,
                     "random rounding is right on average without feedback, and its noise would "
                     "add up with it; leave feedback out");
  }
  if (spec.name == "learned" || spec.name == "cocktail") {
    return SpecError(spec.text,
                     "this codec is for stage groups, whose exchange has its own feedback; leave "
                     "feedback out");
  }
  const std::string_view levels = spec.Option("levels");
  const bool affine = levels == "affine" || (spec.name == "tiles" && levels.empty());
  if (!affine || spec.Option("bits") != "1") return Status::Ok();
  return SpecError(spec.text,
                   "one affine bit can leave more than it was given; take levels=midrise or "
                   "bits=2 with feedback");
}

// Takes the option `feedback` out of a spec that is not inside another one; what it says.
Result<bool> TakeFeedback(CodecSpec* spec) {
  if (spec->Option("feedback").empty()) return false;
  if (spec->name == "aqsgd") return NoFeedback(spec->text);
  if (spec->name == "lowrank") {
    return SpecError(spec->text,
                     "what lowrank leaves out is fed back by lazy=on; leave feedback out");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t on, ChoiceOption(*spec, "feedback", {"off", "on"}));
  if (on == 1) SHOAL_RETURN_IF_ERROR(CheckFeedback(*spec));
  std::erase_if(spec->options, [](const auto& option) { return option.first == "feedback"; });
  return on == 1;
}

// A codec without m that an option of `outer` names.
Result<PlainPointer> MakeNested(const CodecSpec& outer, std::string_view key, std::string_view text,
                                std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec spec, ParseCodecSpec(text, '/'));
  if (!spec.Option("feedback").empty()) {
    if (outer.name == "aqsgd") return NoFeedback(outer.text);
    return SpecError(outer.text,
                     std::string(key) + "= names a codec without memory; leave " + "feedback out");
  }
  Result<PlainPointer> made = MakePlain(spec, hidden);
  if (made.ok() && *made != nullptr) return made;
  const std::string name(key);
  if (!made.ok()) {
    return made.status().WithContext(name + " of '" + std::string(outer.text) + "'");
  }
  return SpecError(outer.text,
                   name + "=" + std::string(text) + "; allowed are " + name + "=raw:dtype=..., " +
                       name + "=direct:bits=... and specs of tiles, topk and dithered, further " +
                       "options after '/', as in direct:bits=8/bucket=64");
}

std::shared_ptr<const DirectCodec> MidRise(int bits, std::uint32_t bucket, EntropyStage stage) {
  const LevelRule rule(bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest);
  return std::make_shared<const DirectCodec>(BucketCode(rule, bucket), stage);
}

Result<AqsgdParts> MakeAqsgd(const CodecSpec& spec, std::uint32_t hidden) {
  AqsgdParts parts;
  std::uint32_t bucket = DefaultBucket(hidden);
  EntropyStage stage = EntropyStage::kNone;
  int bits = 2;
  std::string options;
  std::shared_ptr<const DirectCodec> buckets;
  if (const std::string_view delta = spec.Option("delta"); !delta.empty()) {
    SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
    SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"delta", "m", "first_visit", "guard"}));
    SHOAL_ASSIGN_OR_RETURN(parts.delta, MakeNested(spec, "delta", delta, hidden));
    options = "delta=" + Nested(parts.delta->spec());
  } else {
    SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"bits", "bucket", "first_visit", "levels", "scale",
                                           "rounding", "m", "guard", "delta"}));
    if (spec.Option("bucket") == "channel") {
      SHOAL_ASSIGN_OR_RETURN(parts.delta, MakeChannel(spec));
    } else {
      SHOAL_ASSIGN_OR_RETURN(buckets, MakeBuckets(spec, hidden));
      parts.delta = buckets;
      bucket = buckets->format().code.bucket();
    }
    SHOAL_ASSIGN_OR_RETURN(stage, ParseEntropyStage(spec.stage));
    bits = static_cast<int>(*SpecNumber(spec.Option("bits")));
    options = parts.delta->spec().substr(parts.delta->spec().find(':') + 1);
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t m, ChoiceOption(spec, "m", {"16", "8", "4", "2"}));
  parts.m = MFormat(16 >> m);
  parts.wide = MidRise(std::min(2 * bits, kBitsMax), bucket, stage);
  if (parts.m.bits() == 16) parts.one_pass = buckets;
  std::string_view first = spec.Option("first_visit");
  if (first.empty()) first = "raw:dtype=fp16";
  SHOAL_ASSIGN_OR_RETURN(parts.first_visit, MakeNested(spec, "first_visit", first, hidden));
  const bool raw = first.substr(0, 4) == "raw:";
  parts.full = raw ? PlainPointer(MidRise(kBitsMax, bucket, stage)) : parts.first_visit;
  parts.spec = "aqsgd" + std::string(EntropySuffix(stage)) + ":" + options +
               ",first_visit=" + Nested(parts.first_visit->spec());
  SHOAL_ASSIGN_OR_RETURN(const std::size_t guard, ChoiceOption(spec, "guard", {"on", "off"}));
  parts.guarded = guard == 0;
  if (!parts.guarded) parts.spec += ",guard=off";
  if (parts.m.bits() != 16) parts.spec += ",m=" + std::to_string(parts.m.bits());
  return parts;
}

Result<LowRankParts> MakeLowRank(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"rank", "epilogue", "lazy", "factors", "else"}));
  LowRankParts parts;
  SHOAL_ASSIGN_OR_RETURN(parts.rank, NumberOption(spec, "rank", 1, kRankMax, parts.rank));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t all, ChoiceOption(spec, "epilogue", {"true", "false"}));
  parts.epilogue = all == 0;
  SHOAL_ASSIGN_OR_RETURN(const std::size_t lazy, ChoiceOption(spec, "lazy", {"auto", "on", "off"}));
  parts.lazy = static_cast<Lazy>(lazy);
  SHOAL_ASSIGN_OR_RETURN(const std::size_t wide, ChoiceOption(spec, "factors", {"fp16", "fp32"}));
  parts.factors = wide == 0 ? ValueType::kFp16 : ValueType::kFp32;
  std::string_view otherwise = spec.Option("else");
  if (otherwise.empty()) otherwise = kDefaultElse;
  SHOAL_ASSIGN_OR_RETURN(parts.otherwise, MakeNested(spec, "else", otherwise, hidden));
  return parts;
}

double Ratio(double part, double whole) { return whole > 0 ? std::sqrt(part / whole) : 0.0; }

}  // namespace

std::string_view DeltaModeName(DeltaMode mode) {
  switch (mode) {
    case DeltaMode::kDelta: return "delta";
    case DeltaMode::kWideDelta: return "wide delta";
    case DeltaMode::kFull: return "full";
  }
  return "unknown";
}

void CodingStats::Add(const CodingStats& other) {
  values += other.values;
  errors += other.errors;
  based += other.based;
  deltas += other.deltas;
}
double CodingStats::relative_error() const { return Ratio(errors, values); }
double CodingStats::relative_delta() const { return Ratio(deltas, based); }

Result<CodecParts> ParseCodec(std::string_view spec, std::uint32_t hidden) {
  if (hidden < 1 || hidden > kHiddenMax) {
    return InvalidArgument("codec: hidden size " + std::to_string(hidden) +
                           " is outside 1 to 1048576");
  }
  SHOAL_ASSIGN_OR_RETURN(CodecSpec parsed, ParseCodecSpec(spec, ','));
  CodecParts parts;
  SHOAL_ASSIGN_OR_RETURN(parts.feedback, TakeFeedback(&parsed));
  if (parsed.name == "aqsgd") {
    SHOAL_ASSIGN_OR_RETURN(parts.aqsgd, MakeAqsgd(parsed, hidden));
    return parts;
  }
  if (parsed.name == "lowrank") {
    SHOAL_ASSIGN_OR_RETURN(parts.low_rank, MakeLowRank(parsed, hidden));
    return parts;
  }
  SHOAL_ASSIGN_OR_RETURN(parts.plain, MakePlain(parsed, hidden));
  if (parts.plain != nullptr) return parts;
  return SpecError(spec, "unknown codec '" + std::string(parsed.name) + "'; known are " + kKnown);
}

Result<std::shared_ptr<const MessageCodec>> MakeCodec(std::string_view spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(CodecParts parts, ParseCodec(spec, hidden));
  if (parts.aqsgd) return NewAqsgdCodec(std::move(*parts.aqsgd));
  if (parts.low_rank) return NewLowRankCodec(std::move(*parts.low_rank));
  return parts.feedback ? NewFeedbackCodec(std::move(parts.plain))
                        : NewPlainMessageCodec(std::move(parts.plain));
}

Status CheckDirections(const MessageCodec& forward, const MessageCodec& backward) {
  if (forward.keeps_residual()) {
    const std::string inner = forward.spec().substr(0, forward.spec().rfind(','));
    return InvalidArgument("forward codec " + forward.spec() +
                           " feeds back what it did not send, which is for gradients; for "
                           "activations take aqsgd:delta=" +
                           Nested(inner) + ", whose m does that");
  }
  if (forward.stateful() != nullptr) {
    return InvalidArgument("forward codec " + forward.spec() +
                           " is for gradients: training on low-rank activations diverges; take "
                           "aqsgd:bits=3");
  }
  if (backward.keeps_m()) {
    return InvalidArgument("backward codec " + backward.spec() +
                           " builds on m, which both ends keep of activations only; for gradients "
                           "take dithered:step=0.5 or direct:bits=8, or topk with feedback=on, "
                           "whose sender alone keeps what it did not send");
  }
  return Status::Ok();
}

}  // namespace shoal::compression
