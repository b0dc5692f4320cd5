#include "compression/codecs/channel_codec.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/api/message_noise.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/direct_codec.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint8_t kAuthorsVariant = 3;
constexpr std::uint32_t kRoundingStream = 0;
constexpr float kAuthorsEpsilon = 1e-6F;

}  // namespace

ChannelCodec::ChannelCodec(int bits, std::optional<LevelRule> rule, EntropyCoder coder)
    : bits_(bits), rule_(rule), coder_(coder) {
  spec_ = "direct" + std::string(EntropySuffix(coder)) + ":bits=" + std::to_string(bits) +
          ",bucket=channel" + (rule ? RuleOptions(*rule) : ",levels=authors");
}

std::shared_ptr<const PlainCodec> ChannelCodec::Wider() const {
  const int bits = WiderBits(bits_);
  std::optional<LevelRule> rule = rule_;
  if (rule) rule = rule->WithBits(bits);
  return std::make_shared<const ChannelCodec>(bits, rule, coder_);
}

PayloadHeader ChannelCodec::HeaderFor(SampleShape shape, std::size_t samples) const {
  PayloadHeader header;
  header.codec = CodecId::kChannel;
  header.bits = static_cast<std::uint8_t>(bits_);
  header.type = rule_ ? ValueType::kBf16 : ValueType::kFp16;
  header.variant = rule_ ? static_cast<std::uint8_t>(rule_->levels()) : kAuthorsVariant;
  if (coder_ != EntropyCoder::kNone) header.variant |= kEntropyVariant;
  header.values = samples * shape.values();
  return header;
}

Status ChannelCodec::CheckLargest(std::uint32_t most) const {
  return CheckMagnitude(most, rule_ ? kDeltaMax : 65504.0F, spec_);
}

Status ChannelCodec::ChooseScales(std::span<const std::span<const float>> samples,
                                  SampleShape shape, std::byte* scales) const {
  const std::size_t hidden = shape.hidden;
  std::vector<std::uint32_t> most(hidden);
  for (const auto& sample : samples) {
    ColumnMagnitudes(sample.data(), shape.tokens, hidden, most.data());
  }
  SHOAL_RETURN_IF_ERROR(CheckLargest(*std::max_element(most.begin(), most.end())));
  if (!rule_) {
    for (std::size_t c = 0; c < hidden; ++c) {
      StoreLittle(scales + 2 * c, FloatToHalf(std::bit_cast<float>(most[c])));
    }
    return Status::Ok();
  }
  // A rule that looks at the values wants them side by side.
  const bool looks = rule_->levels() == Levels::kAffine || rule_->scale() == ScaleRule::kOptimal;
  std::vector<float> column(looks ? samples.size() * shape.tokens : 0);
  for (std::size_t c = 0; c < hidden; ++c) {
    std::size_t at = 0;
    for (std::size_t i = 0; looks && i < samples.size(); ++i) {
      for (std::size_t t = 0; t < shape.tokens; ++t) column[at++] = samples[i][t * hidden + c];
    }
    rule_->Choose(column.data(), column.size(), 1, most[c], scales + c * ScaleBytes());
  }
  return Status::Ok();
}

ChannelCodec::Constants ChannelCodec::EncoderConstants(SampleShape shape,
                                                       const std::byte* scales) const {
  Constants constants{std::vector<float>(shape.hidden), std::vector<float>(shape.hidden)};
  for (std::size_t c = 0; c < shape.hidden; ++c) {
    if (rule_) {
      rule_->EncoderConstants(scales + c * ScaleBytes(), &constants.first[c], &constants.second[c]);
    } else {
      const float scale = HalfToFloat(LoadLittle<std::uint16_t>(scales + 2 * c));
      constants.first[c] = HalfToFloat(FloatToHalf(scale + kAuthorsEpsilon));
    }
  }
  return constants;
}

ChannelCodec::Constants ChannelCodec::DecoderConstants(SampleShape shape,
                                                       const std::byte* scales) const {
  Constants constants{std::vector<float>(shape.hidden), std::vector<float>(shape.hidden)};
  for (std::size_t c = 0; c < shape.hidden; ++c) {
    if (rule_) {
      rule_->DecoderConstants(scales + c * ScaleBytes(), &constants.first[c], &constants.second[c]);
    } else {
      // (code - 2^(b-1)) / 2^(b-1) * scale: powers of two, so every step is exact.
      const float scale = HalfToFloat(LoadLittle<std::uint16_t>(scales + 2 * c));
      constants.first[c] = scale * PowerOfTwo(1 - bits_);
      constants.second[c] = -scale;
    }
  }
  return constants;
}

void ChannelCodec::Quantise(std::span<const float> x, SampleShape shape, const Constants& constants,
                            const float* noise, std::uint8_t* codes) const {
  const std::size_t hidden = shape.hidden;
  if (rule_) {
    return QuantiseColumns(x.data(), shape.tokens, hidden, rule_->top(), constants.first.data(),
                           constants.second.data(), noise, codes);
  }
  const float half = PowerOfTwo(bits_ - 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(AuthorsCode(x[i], constants.first[i % hidden], half));
  }
}

std::size_t ChannelCodec::WriteCodes(std::vector<std::uint8_t>* codes, SampleShape shape,
                                     std::size_t samples, std::span<std::byte> out) const {
  const std::size_t n = shape.values();
  if (coder_ != EntropyCoder::kNone) {
    return WriteSymbols(coder_, std::span(*codes).first(samples * n), bits_, out);
  }
  std::vector<std::uint8_t> padded((n + 7) / 8 * 8);
  for (std::size_t i = 0; i < samples; ++i) {
    std::copy_n(codes->begin() + static_cast<std::ptrdiff_t>(i * n), n, padded.begin());
    PackCodes(padded.data(), padded.size() / 8, bits_, out.data() + i * PackedBytes(shape));
  }
  return samples * PackedBytes(shape);
}

Result<std::size_t> ChannelCodec::Encode(std::span<const std::span<const float>> samples,
                                         SampleShape shape, const RandomKey& key,
                                         std::span<std::byte> out,
                                         std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  const std::size_t n = shape.values();
  std::byte* scales = out.data() + kPayloadHeaderBytes;
  SHOAL_RETURN_IF_ERROR(ChooseScales(samples, shape, scales));
  const Constants encoder = EncoderConstants(shape, scales);
  const Constants decoder = DecoderConstants(shape, scales);
  const bool noisy = rule_ && rule_->rounding() == Rounding::kStochastic;
  std::vector<float> noise(noisy ? n : 0);
  std::vector<std::uint8_t> codes(samples.size() * n);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (noisy) FillUniform(key, kRoundingStream, i * n, noise);
    Quantise(samples[i], shape, encoder, noisy ? noise.data() : nullptr, codes.data() + i * n);
    if (decoded.empty()) continue;
    DequantiseColumns(codes.data() + i * n, shape.tokens, shape.hidden, decoder.first.data(),
                      decoder.second.data(), decoded[i].data());
  }
  WritePayloadHeader(HeaderFor(shape, samples.size()), out.data());
  const std::size_t at = CodesAt(shape);
  return at + WriteCodes(&codes, shape, samples.size(), out.subspan(at));
}

Status ChannelCodec::CheckScales(const std::byte* scales, std::size_t hidden) const {
  for (std::size_t c = 0; c < hidden; ++c) {
    const std::byte* scale = scales + c * ScaleBytes();
    const auto bits = LoadLittle<std::uint16_t>(scale);
    if (rule_ ? rule_->Allowed(scale) : bits < kHalfInfinity) continue;
    return InvalidArgument("codec " + spec_ + ": scale " + std::to_string(c) + " has the bits " +
                           std::to_string(bits) +
                           ", which no sender writes; drop the message and ask for it again");
  }
  return Status::Ok();
}

Status ChannelCodec::ReadCodes(std::span<const std::byte> in, SampleShape shape,
                               std::size_t samples, std::vector<std::uint8_t>* codes) const {
  const std::size_t n = shape.values();
  codes->resize(samples * n);
  if (coder_ != EntropyCoder::kNone) return ReadSymbols(in, bits_, *codes, spec_);
  std::vector<std::uint8_t> padded((n + 7) / 8 * 8);
  for (std::size_t i = 0; i < samples; ++i) {
    UnpackCodes(in.data() + i * PackedBytes(shape), padded.size() / 8, bits_, padded.data());
    if (std::any_of(padded.begin() + static_cast<std::ptrdiff_t>(n), padded.end(),
                    [](std::uint8_t code) { return code != 0; })) {
      return InvalidArgument("codec " + spec_ +
                             ": padding bits of the last group are not 0; drop the message and "
                             "ask for it again");
    }
    std::copy_n(padded.begin(), n, codes->begin() + static_cast<std::ptrdiff_t>(i * n));
  }
  return Status::Ok();
}

Status ChannelCodec::Open(std::span<const std::byte> payload, SampleShape shape,
                          std::size_t samples, std::vector<std::uint8_t>* codes) const {
  const PayloadHeader want = HeaderFor(shape, samples);
  const bool exact = coder_ == EntropyCoder::kNone;
  const Result<int> exponent =
      exact ? CheckPayload(payload, want, EncodedBytesMax(shape, samples), spec_)
            : CheckHeader(payload, want, spec_);
  if (!exponent.ok()) return exponent.status();
  const std::size_t at = CodesAt(shape);
  if (payload.size() < at) {
    return InvalidArgument("codec " + spec_ + ": payload of " + std::to_string(payload.size()) +
                           " bytes, expected at least " + std::to_string(at) +
                           "; drop the message and ask for it again");
  }
  SHOAL_RETURN_IF_ERROR(CheckScales(payload.data() + kPayloadHeaderBytes, shape.hidden));
  return ReadCodes(payload.subspan(at), shape, samples, codes);
}

Status ChannelCodec::Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey&,
                            std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  std::vector<std::uint8_t> codes;
  SHOAL_RETURN_IF_ERROR(Open(payload, shape, samples.size(), &codes));
  const Constants decoder = DecoderConstants(shape, payload.data() + kPayloadHeaderBytes);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].empty()) continue;
    DequantiseColumns(codes.data() + i * shape.values(), shape.tokens, shape.hidden,
                      decoder.first.data(), decoder.second.data(), samples[i].data());
  }
  return Status::Ok();
}

Result<std::shared_ptr<const PlainCodec>> MakeChannelCodec(const CodecSpec& spec) {
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  if (spec.Option("levels") != "authors") {
    SHOAL_ASSIGN_OR_RETURN(const LevelRule rule, RuleOption(spec, Levels::kMidRise));
    return PlainPointer(std::make_shared<const ChannelCodec>(rule.bits(), rule, coder));
  }
  if (!spec.Option("scale").empty() || !spec.Option("rounding").empty()) {
    return SpecError(spec, "levels=authors fixes scale and rounding; leave them out");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits,
                         NumberOption(spec, "bits", 2, kCodeBitsMax, std::nullopt));
  return PlainPointer(
      std::make_shared<const ChannelCodec>(static_cast<int>(bits), std::nullopt, coder));
}

}  // namespace shoal::compression
