#include "compression/codecs/direct_codec.h"
#include "compression/codecs/channel_codec.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"

#include <algorithm>

namespace shoal::compression {

std::string RuleOptions(const LevelRule& rule, Levels usual) {
  static constexpr std::string_view kLevels[] = {"midrise", "midtread", "affine"};
  std::string text;
  if (rule.levels() != usual) {
    text += ",levels=" + std::string(kLevels[static_cast<std::size_t>(rule.levels())]);
  }
  if (rule.scale() == ScaleRule::kOptimal) text += ",scale=optimal";
  if (rule.rounding() == Rounding::kStochastic) text += ",rounding=stochastic";
  return text;
}

DirectCodec::DirectCodec(const BucketCode& code, EntropyCoder stage)
    : format_{code, stage,
              "direct" + std::string(EntropySuffix(stage)) +
                  ":bits=" + std::to_string(code.bits()) +
                  ",bucket=" + std::to_string(code.bucket()) + RuleOptions(code.rule())} {}

Result<std::size_t> DirectCodec::Encode(std::span<const std::span<const float>> samples,
                                        SampleShape shape, const RandomKey& key,
                                        std::span<std::byte> out,
                                        std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.code.bucket(), shape, spec()));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  const std::size_t n = shape.values();
  const std::size_t block = format_.code.BlockValues(n);
  BucketWriter writer(format_, shape, samples.size(), key, out);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t first = 0; first < n; first += block) {
      const std::size_t count = std::min(block, n - first);
      SHOAL_RETURN_IF_ERROR(
          writer.Block(i, first, count, samples[i].data() + first, kMagnitudeMax));
      if (!decoded.empty()) writer.Levels(decoded[i].data() + first);
    }
  }
  return writer.Finish();
}

Status DirectCodec::Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey&,
                           std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.code.bucket(), shape, spec()));
  const std::size_t n = shape.values();
  const std::size_t block = format_.code.BlockValues(n);
  BucketReader reader(format_, shape, samples.size());
  SHOAL_RETURN_IF_ERROR(reader.Open(payload));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t first = 0; first < samples[i].size(); first += block) {
      reader.Levels(i, first, std::min(block, n - first), samples[i].data() + first);
    }
  }
  return Status::Ok();
}

namespace {

// Fewer bits cost training loss: forward without m, and backward rounded without dither.
constexpr std::uint32_t kForwardBits = 6;
constexpr std::uint32_t kBackwardBits = 4;

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t hidden) {
  if (spec.Option("bucket") == "channel") return MakeChannelCodec(spec);
  SHOAL_ASSIGN_OR_RETURN(const auto direct, MakeDirectCodec(spec, hidden));
  return PlainPointer(direct);
}

std::string_view NoFeedback(const CodecSpec& spec) {
  const std::string_view rounding = RoundingForbidsFeedback(spec);
  return !rounding.empty() ? rounding
                           : AffineForbidsFeedback(spec, spec.Option("levels") == "affine");
}

void AdviseForward(const CodecChoice& /*choice*/, const CodecSpec& spec, Advice* advice) {
  if (SpecNumber(spec.Option("bits")).value_or(UINT32_MAX) >= kForwardBits) return;
  AddAdvice("forward", spec,
            "activations without m cost 14 % at 3 bits and 27 % at 2; take aqsgd:bits=3, or "
            "direct:bits=8 for a single epoch",
            advice);
}

void AdviseBackward(const CodecChoice& /*choice*/, const CodecSpec& spec, Advice* advice) {
  if (SpecNumber(spec.Option("bits")).value_or(UINT32_MAX) >= kBackwardBits) return;
  if (spec.Option("feedback") == "on") return;
  AddAdvice("backward", spec,
            "rounding gradients this coarsely biases every step; dithered:step=1 needs about 2 "
            "bits and does not",
            advice);
}

constexpr std::string_view kKeys[] = {"bits", "bucket", "levels", "scale", "rounding", "feedback"};

}  // namespace

Result<std::shared_ptr<const DirectCodec>> MakeDirectCodec(const CodecSpec& spec,
                                                           std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const LevelRule rule, RuleOption(spec, Levels::kMidRise));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, BucketOption(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder stage, EntropyOption(spec));
  return std::make_shared<const DirectCodec>(BucketCode(rule, bucket), stage);
}

const CodecEntry& DirectEntry() {
  static constexpr CodecEntry kEntry{
      .name = "direct",
      .usage = "direct:bits=1..8[,bucket=N|channel][,levels=][,scale=][,rounding=]",
      .keys = kKeys,
      .entropy_coder = true,
      .make = Make,
      .no_feedback = NoFeedback,
      .unbiased = StochasticIsUnbiased,
      .advise_forward = AdviseForward,
      .advise_backward = AdviseBackward,
  };
  return kEntry;
}

}  // namespace shoal::compression
