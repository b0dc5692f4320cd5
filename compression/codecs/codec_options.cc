#include "compression/codecs/codec_options.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "compression/codecs/bucket_code.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kChannelBits = 6;  // fewer cost, with scales per channel

Status NotADivisor(const CodecSpec& spec, std::uint32_t hidden, const char* also) {
  return SpecError(spec, "bucket=" + std::string(spec.Option("bucket")) +
                             " does not divide the hidden size " + std::to_string(hidden) +
                             "; allowed are " + also + BucketsAllowed(hidden));
}

Result<LevelRule> StepRule(const CodecSpec& spec, int bits) {
  SHOAL_ASSIGN_OR_RETURN(const double step,
                         FractionOption(spec, "step", kStepMin, kStepMax, std::nullopt));
  for (const std::string_view key : {"levels", "scale", "rounding"}) {
    if (!spec.Option(key).empty()) {
      return SpecError(spec, "step= says what " + std::string(key) + "= would; leave one out");
    }
  }
  if (bits == 1) return SpecError(spec, "step= with bits=1 has only the level 0; take bits=2");
  return LevelRule::OfStep(bits, static_cast<float>(step));
}

}  // namespace

std::string NumberText(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

bool HasStep(const CodecSpec& spec) { return !spec.Option("step").empty(); }

Result<int> BitsOption(const CodecSpec& spec) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 1, kCodeBitsMax, std::nullopt));
  return static_cast<int>(bits);
}

Result<LevelRule> RuleOption(const CodecSpec& spec, Levels usual) {
  SHOAL_ASSIGN_OR_RETURN(const int bits, BitsOption(spec));
  if (!spec.Option("step").empty()) return StepRule(spec, bits);
  SHOAL_ASSIGN_OR_RETURN(const std::size_t levels,
                         ChoiceOption(spec, "levels", {"midrise", "midtread", "affine"}));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t scale,
                         ChoiceOption(spec, "scale", {"absmax", "optimal"}));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t rounding,
                         ChoiceOption(spec, "rounding", {"nearest", "stochastic"}));
  const Levels named = spec.Option("levels").empty() ? usual : static_cast<Levels>(levels);
  const LevelRule rule(bits, named, static_cast<ScaleRule>(scale), static_cast<Rounding>(rounding));
  if (rule.levels() == Levels::kMidTread && bits == 1) {
    return SpecError(spec, "levels=midtread with bits=1 has only the level 0; use midrise");
  }
  if (rule.levels() == Levels::kAffine && rule.scale() == ScaleRule::kOptimal) {
    return SpecError(spec, "scale=optimal needs levels=midrise or levels=midtread");
  }
  return rule;
}

Result<std::uint32_t> BucketOption(const CodecSpec& spec, std::uint32_t hidden) {
  const std::string_view text = spec.Option("bucket");
  // A mean over a whole token is the better one, where the largest value would be the worse.
  if (text.empty()) return HasStep(spec) ? hidden : DefaultBucket(hidden);
  const auto number = SpecNumber(text);
  if (number && hidden % *number == 0) return *number;
  return NotADivisor(spec, hidden, "channel, ");
}

Result<std::uint32_t> RangeBucketOption(const CodecSpec& spec, std::uint32_t hidden) {
  if (const std::string_view text = spec.Option("bucket"); !text.empty()) {
    const auto number = SpecNumber(text);
    if (number && hidden % *number == 0) return *number;
    return NotADivisor(spec, hidden, "");
  }
  std::uint32_t bucket = std::min(hidden, kRangeBucketDefault);
  while (hidden % bucket != 0) --bucket;
  return bucket;
}

Result<EntropyCoder> EntropyOption(const CodecSpec& spec) {
  Result<EntropyCoder> coder = ParseEntropyCoder(spec.coder);
  if (!coder.ok()) return SpecError(spec, std::string(coder.status().message()));
  return coder;
}

Result<bool> ChannelsOption(const CodecSpec& spec) {
  SHOAL_ASSIGN_OR_RETURN(const std::size_t channels, ChoiceOption(spec, "channels", {"off", "on"}));
  if (channels == 1 && spec.Option("bucket") == "channel") {
    return SpecError(spec, "bucket=channel has a scale per channel already; leave out channels=on");
  }
  return channels == 1;
}

bool HasChannelScales(const CodecSpec& spec) { return spec.Option("channels") == "on"; }

std::string_view OneBitForbidsChanges(const CodecSpec& spec, bool affine) {
  if (spec.Option("bits") != "1") return {};
  if (!affine && spec.Option("rounding") != "stochastic") return {};
  return "one bit of affine or randomly rounded levels leaves errors as large as the changes, so m "
         "would never come closer to the activation; take bits=2, or midrise levels that are "
         "rounded to the nearest";
}

std::string_view RoundingForbidsFeedback(const CodecSpec& spec) {
  return spec.Option("rounding") == "stochastic" ? kRandomNeedsNoFeedback : std::string_view();
}

std::string_view AffineForbidsFeedback(const CodecSpec& spec, bool affine) {
  if (!affine || spec.Option("bits") != "1") return {};
  return "one affine bit can leave more than it was given; take levels=midrise or bits=2 with "
         "feedback";
}

std::string_view CostOfChannelScales(const CodecSpec& spec) {
  if (spec.Option("bucket") != "channel") return {};
  if (SpecNumber(spec.Option("bits")).value_or(UINT32_MAX) >= kChannelBits) return {};
  return "one scale per channel for all tokens costs 10 to 12 % at 2 bits forward and 4 backward "
         "with a high learning rate; leave out bucket=channel, or take dithered with channels=on";
}

bool StochasticIsUnbiased(const CodecSpec& spec) {
  const std::string_view levels = spec.Option("levels");
  return spec.Option("rounding") == "stochastic" && (levels == "affine" || levels == "midtread") &&
         spec.Option("scale") != "optimal";  // which clips
}

}  // namespace shoal::compression
