#include "replica/methods/qsdp_options.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "compression/api/codec.h"
#include "compression/api/codec_spec.h"
#include "replica/methods/group_limits.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kBitsMax = 8, kBucketMax = 1024, kBucketDefault = 1024;
constexpr std::uint32_t kDeltaBits = 4, kPlainBits = 8;
constexpr std::uint32_t kRawBelowMax = 1u << 30;
constexpr std::uint32_t kLearnStepMax = 1u << 30;
constexpr std::size_t kLearnStepsMax = 16;
// From so many bits on a level at zero is worth more than an even number of levels.
constexpr int kZeroLevelBits = 4;

Result<int> Bits(const compression::CodecSpec& spec, std::string_view key,
                 std::uint32_t otherwise) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, key, 1, QsdpOptions::kExactBits, otherwise));
  if (bits > kBitsMax && bits < QsdpOptions::kExactBits) {
    return SpecError(spec, std::string(key) + " must be 1 to 8 bits, or 32 for fp32");
  }
  return static_cast<int>(bits);
}

Result<std::vector<std::uint64_t>> Steps(const compression::CodecSpec& spec,
                                         std::string_view text) {
  std::vector<std::uint64_t> steps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('/'), text.size());
    const auto step = compression::SpecNumber(text.substr(0, end));
    if (!step || *step > kLearnStepMax || (!steps.empty() && *step <= steps.back()) ||
        steps.size() == kLearnStepsMax) {
      return SpecError(spec,
                       "learn is auto or up to 16 ascending steps from 1 on, such as "
                       "400/1900/3800");
    }
    steps.push_back(*step);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

std::optional<std::uint32_t> Pipeline(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= kPipelinesMax) return {};
  return value;
}

Status ReadLevels(const compression::CodecSpec& spec, QsdpOptions* options) {
  SHOAL_ASSIGN_OR_RETURN(const std::size_t levels,
                         ChoiceOption(spec, "levels", {"uniform", "learned"}));
  options->learned = levels == 1;
  const std::string_view learn = spec.Option("learn");
  if (!options->learned && !learn.empty()) {
    return SpecError(spec, "learn needs levels=learned");
  }
  if (options->learned && !options->learns_weights() && !options->learns_gradients()) {
    return SpecError(spec,
                     "levels=learned is for weights or gradients of 1 to 5 bits; more "
                     "gain nothing by it");
  }
  if (learn.empty() || learn == "auto") return Status::Ok();
  SHOAL_ASSIGN_OR_RETURN(options->learn, Steps(spec, learn));
  return Status::Ok();
}

}  // namespace

std::string QsdpOptions::Spec() const {
  std::string text =
      "qsdp:weights=" + std::to_string(weight_bits) +
      ",gradients=" + std::to_string(gradient_bits) + ",bucket=" + std::to_string(bucket) +
      ",raw_below=" + std::to_string(raw_below) + ",delta=" + (delta ? "true" : "false") +
      ",lan=" + (lan.empty() ? "none" : lan) + ",levels=" + (learned ? "learned" : "uniform");
  if (shard_parameters) text += ",shard_parameters=true";
  if (!learned) return text;
  text += ",learn=";
  if (learn.empty()) return text + "auto";
  for (std::size_t i = 0; i < learn.size(); ++i) {
    text += (i > 0 ? "/" : "") + std::to_string(learn[i]);
  }
  return text;
}

std::string QsdpOptions::WeightCodec() const {
  if (weight_bits == kExactBits) return compression::kLosslessCodec;
  return "shifted:bits=" + std::to_string(weight_bits) + ",bucket=" + std::to_string(bucket);
}

std::string QsdpOptions::GradientCodec() const {
  if (gradient_bits == kExactBits) return compression::kLosslessCodec;
  if (learns_gradients())
    return LearnedCodec(gradient_bits, compression::UniformLevels(gradient_bits));
  return "direct:bits=" + std::to_string(gradient_bits) + ",bucket=" + std::to_string(bucket) +
         ",levels=" + (gradient_bits >= kZeroLevelBits ? "midtread" : "affine") +
         ",rounding=stochastic";
}

std::string QsdpOptions::LearnedCodec(int bits, std::span<const std::uint16_t> levels) const {
  return "learned:bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket) +
         ",levels=" + compression::LevelText(levels);
}

std::vector<std::uint64_t> QsdpOptions::LearnSteps(std::uint64_t run_steps) const {
  if (!learned || !learn.empty()) return learn;
  std::vector<std::uint64_t> steps = {run_steps / 12, run_steps / 5 * 2, run_steps / 5 * 4};
  for (std::uint64_t& step : steps) step = std::max<std::uint64_t>(step, 1);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

Result<std::vector<std::size_t>> QsdpOptions::LanOf(std::uint32_t pipelines) const {
  std::vector<std::size_t> lans(pipelines);
  for (std::size_t p = 0; p < lans.size(); ++p) lans[p] = p;  // each its own
  std::vector<bool> named(pipelines);
  for (std::string_view rest = lan_auto() ? std::string_view() : lan; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    const std::size_t dash = part.find('-');
    const auto first = Pipeline(part.substr(0, dash));
    const auto last = dash == part.npos ? first : Pipeline(part.substr(dash + 1));
    bool right = first && last && *first <= *last && *last < pipelines;
    for (std::uint32_t p = right ? *first : 1; right && p <= *last; ++p) {
      right = !named[p];
      named[p] = true;
      lans[p] = *first;
    }
    if (!right) {
      return InvalidArgument("lan has '" + std::string(part) +
                             "'; it names pipelines of one LAN each, once, from 0 to " +
                             std::to_string(pipelines - 1) +
                             ", such as 0-1/2-3, or is auto or none");
    }
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return lans;
}

Result<QsdpOptions> ParseQsdp(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecSpec spec,
                         compression::ParseCodecSpec(text, ',', compression::kReplicaMethodSpec));
  if (spec.name != "qsdp") return SpecError(spec, "this is not qsdp");
  SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, kQsdpKeys));
  QsdpOptions options;
  SHOAL_ASSIGN_OR_RETURN(const std::size_t shard,
                         ChoiceOption(spec, "shard_parameters", {"false", "true"}));
  options.shard_parameters = shard == 1;
  SHOAL_ASSIGN_OR_RETURN(const std::size_t delta, ChoiceOption(spec, "delta", {"false", "true"}));
  SHOAL_ASSIGN_OR_RETURN(options.weight_bits,
                         Bits(spec, "weights", delta == 1 ? kDeltaBits : kPlainBits));
  // At 4 bits weights themselves lose eight times as much as their differences do.
  const bool differences =
      options.weight_bits < static_cast<int>(kPlainBits) && !options.shard_parameters;
  options.delta = spec.Option("delta").empty() ? differences : delta == 1;
  SHOAL_ASSIGN_OR_RETURN(options.gradient_bits, Bits(spec, "gradients", kPlainBits));
  SHOAL_ASSIGN_OR_RETURN(options.bucket,
                         NumberOption(spec, "bucket", 16, kBucketMax, kBucketDefault));
  if (kBucketMax % options.bucket != 0) {
    return SpecError(spec, "bucket must divide " + std::to_string(kBucketMax));
  }
  SHOAL_ASSIGN_OR_RETURN(options.raw_below,
                         NumberOption(spec, "raw_below", 1, kRawBelowMax, options.raw_below));
  if (options.delta && options.weight_bits == QsdpOptions::kExactBits) {
    return SpecError(spec, "delta=true is for weights of 1 to 8 bits");
  }
  SHOAL_RETURN_IF_ERROR(ReadLevels(spec, &options));
  if (spec.Option("lan") != "none") options.lan = spec.Option("lan");
  if (const auto lans = options.LanOf(kPipelinesMax); !lans.ok()) {
    return SpecError(spec, lans.status().message());
  }
  if (options.shard_parameters && (options.delta || !options.lan.empty())) {
    return SpecError(spec,
                     "shard_parameters=true goes with weights, gradients, bucket, raw_below and "
                     "levels, and not with delta or lan");
  }
  if (options.shard_parameters && options.learns_gradients()) {
    return SpecError(spec,
                     "with shard_parameters=true levels are learned for weights only, since "
                     "nobody has room for the errors of gradients: take 6 to 8 bits for these, or "
                     "32");
  }
  return options;
}

}  // namespace shoal::replica
