#include "compression/codecs/direct_codec.h"
#include "compression/codecs/codec_options.h"

#include <algorithm>
#include <charconv>

namespace shoal::compression {

std::string RuleOptions(const LevelRule& rule, Levels usual) {
  static constexpr std::string_view kLevels[] = {"midrise", "midtread", "affine"};
  if (rule.scale() == ScaleRule::kStep) {
    char step[32];
    const auto end = std::to_chars(std::begin(step), std::end(step), rule.step()).ptr;
    return ",step=" + std::string(step, end);
  }
  std::string text;
  if (rule.levels() != usual) {
    text += ",levels=" + std::string(kLevels[static_cast<std::size_t>(rule.levels())]);
  }
  if (rule.scale() == ScaleRule::kOptimal) text += ",scale=optimal";
  if (rule.rounding() == Rounding::kStochastic) text += ",rounding=stochastic";
  return text;
}

DirectCodec::DirectCodec(const BucketCode& code, EntropyCoder coder)
    : format_{code, coder,
              "direct" + std::string(EntropySuffix(coder)) +
                  ":bits=" + std::to_string(code.bits()) +
                  ",bucket=" + std::to_string(code.bucket()) + RuleOptions(code.rule())} {}

std::shared_ptr<const PlainCodec> DirectCodec::Wider() const {
  return MidRiseCodec(WiderBits(format_.code.bits()), format_.code.bucket(), format_.coder);
}

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

std::shared_ptr<const DirectCodec> MidRiseCodec(int bits, std::uint32_t bucket,
                                                EntropyCoder coder) {
  const LevelRule rule(bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest);
  return std::make_shared<const DirectCodec>(BucketCode(rule, bucket), coder);
}

Result<std::shared_ptr<const DirectCodec>> MakeDirectCodec(const CodecSpec& spec,
                                                           std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const LevelRule rule, RuleOption(spec, Levels::kMidRise));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket, BucketOption(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  return std::make_shared<const DirectCodec>(BucketCode(rule, bucket), coder);
}

}  // namespace shoal::compression
