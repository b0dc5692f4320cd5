#include "compression/codecs/dithered/klt_codec.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/memory/buffer.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/dithered/dithered_section.h"
#include "compression/codecs/klt/klt_fit.h"
#include "compression/codecs/klt/klt_section.h"
#include "compression/simd/dither_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kSizesAt = kPayloadHeaderBytes;
constexpr std::size_t kReflectorsAt = kSizesAt + 8;
// Steps at which no product of decoded values and reflectors can leave the range of fp32: values
// are below 2^23 steps, rows have up to 2^20 of them, and factors are below 2^7.
constexpr float kStepLeast = 0x1p-60F, kStepMost = 0x1p50F;
// Turning may raise a value by a millionth: tokens whose codes reach the limit stay as they are.
constexpr double kTurnedCodeMost = kDitheredCodeMax / 2.0;

PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) {
  PayloadHeader header;
  header.codec = CodecId::kKlt;
  header.type = ValueType::kFp32;
  header.values = samples * shape.values();
  return header;
}

std::size_t SectionBytesMax(SampleShape shape, std::size_t samples) {
  return DitheredCodec::kSectionAt + DitheredSectionBytesMax(shape, samples, Escapes::kAny);
}

// Turned tokens in two: the leading positions, and the rest. Samples that are not wanted have no
// room.
struct Halves {
  // `wanted`: of each sample, whether it is.
  Halves(SampleShape whole, std::size_t rank, const std::vector<bool>& wanted)
      : shape(whole),
        leading_shape{whole.tokens, static_cast<std::uint32_t>(rank)},
        rest_shape{whole.tokens, static_cast<std::uint32_t>(whole.hidden - rank)} {
    const auto count = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), true));
    leading = Buffer(count * leading_shape.values() * sizeof(float));
    rest = Buffer(count * rest_shape.values() * sizeof(float));
    std::size_t at = 0;
    for (const bool is : wanted) {
      const std::size_t some = is ? 1 : 0;
      leading_samples.push_back(
          leading.floats().subspan(at * leading_shape.values(), some * leading_shape.values()));
      rest_samples.push_back(
          rest.floats().subspan(at * rest_shape.values(), some * rest_shape.values()));
      at += some;
    }
  }

  void Split(std::size_t sample, const float* from) {
    float* first = leading_samples[sample].data();
    float* second = rest_samples[sample].data();
    for (std::size_t t = 0; t < shape.tokens; ++t, from += shape.hidden) {
      first = std::copy_n(from, leading_shape.hidden, first);
      second = std::copy_n(from + leading_shape.hidden, rest_shape.hidden, second);
    }
  }
  void Join(std::size_t sample, float* to) const {
    const float* first = leading_samples[sample].data();
    const float* second = rest_samples[sample].data();
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      to = std::copy_n(first, leading_shape.hidden, to);
      to = std::copy_n(second, rest_shape.hidden, to);
      first += leading_shape.hidden;
      second += rest_shape.hidden;
    }
  }

  SampleShape shape, leading_shape, rest_shape;
  Buffer leading, rest;
  std::vector<std::span<float>> leading_samples, rest_samples;
};

}  // namespace

KltCodec::KltCodec(std::shared_ptr<const DitheredCodec> inner, std::uint32_t rank)
    : inner_(std::move(inner)),
      rank_(rank),
      spec_(inner_->spec() + ",klt=" + std::to_string(rank)) {}

std::shared_ptr<const PlainCodec> KltCodec::Wider() const {
  return std::make_shared<const KltCodec>(inner_->Finer(), rank_);
}

RandomKey KltCodec::KeyOfRest(RandomKey key) {
  key.boundary += std::uint32_t{1} << 30;
  return key;
}

bool KltCodec::MayTurn(std::span<const double> energies, float step) {
  const double loudest = std::sqrt(*std::max_element(energies.begin(), energies.end()));
  return step >= kStepLeast && step <= kStepMost && loudest <= kTurnedCodeMost * double{step};
}

std::size_t KltCodec::WriteStart(const ReflectorCodes& codes, SampleShape shape,
                                 std::size_t samples, std::span<std::byte> out) {
  WritePayloadHeader(HeaderFor(shape, samples), out.data());
  const std::size_t side = WriteReflectors(codes, out.subspan(kReflectorsAt));
  StoreLittle(out.data() + kSizesAt, static_cast<std::uint32_t>(side));
  return kReflectorsAt + side;
}

std::size_t KltCodec::WriteSizes(std::size_t start, const SectionBytes& bytes,
                                 std::span<std::byte> out) {
  StoreLittle(out.data() + kSizesAt + 4, static_cast<std::uint32_t>(bytes.leading));
  return start + bytes.leading + bytes.rest;
}

std::size_t KltCodec::EncodedBytesMax(SampleShape shape, std::size_t samples) const {
  const std::uint32_t rank = std::min(rank_, shape.hidden - 1);
  const std::size_t leading = rank == 0 ? 0 : SectionBytesMax({shape.tokens, rank}, samples);
  return kReflectorsAt + ReflectorBytesMax(rank, shape.hidden) + leading +
         SectionBytesMax(shape, samples);
}

Result<KltCodec::SectionBytes> KltCodec::EncodeTurned(
    const Reflectors& turn, float step, std::span<const std::span<const float>> samples,
    SampleShape shape, const RandomKey& key, std::span<std::byte> out,
    std::span<const std::span<float>> decoded) const {
  Halves halves(shape, turn.rank(), std::vector<bool>(samples.size(), true));
  Buffer turned(shape.values() * sizeof(float));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    turn.Turn(samples[i], turned.floats());
    halves.Split(i, turned.floats().data());
  }
  const auto encode = [&](const std::vector<std::span<float>>& half, SampleShape half_shape,
                          const RandomKey& half_key, std::span<std::byte> to) {
    const std::vector<std::span<const float>> sources(half.begin(), half.end());
    const auto results = decoded.empty() ? std::span<const std::span<float>>() : std::span(half);
    return inner_->EncodeWithStep(sources, half_shape, TokenEnergies(sources, half_shape), step,
                                  half_key, to, results);
  };
  SHOAL_ASSIGN_OR_RETURN(const std::size_t first,
                         encode(halves.leading_samples, halves.leading_shape, key, out));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t second, encode(halves.rest_samples, halves.rest_shape,
                                                          KeyOfRest(key), out.subspan(first)));
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    halves.Join(i, decoded[i].data());
    turn.TurnBack(decoded[i]);
  }
  return SectionBytes{first, second};
}

Result<float> KltCodec::StepOf(std::span<const double> energies,
                               std::span<const std::span<const float>> values, SampleShape shape,
                               const RandomKey& key) const {
  if (!follows_values() || values.empty()) return inner_->StepFor(energies, {}, shape.hidden, key);
  const std::vector<double> followed = TokenEnergies(values, shape);
  SHOAL_RETURN_IF_ERROR(inner_->CheckEnergies(followed, shape));
  return inner_->StepOfChanges(energies, followed, shape.hidden, key);
}

Result<std::size_t> KltCodec::EncodeChanges(std::span<const std::span<const float>> samples,
                                            std::span<const std::span<const float>> values,
                                            SampleShape shape, const RandomKey& key,
                                            std::span<std::byte> out,
                                            std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  const std::vector<double> energies = TokenEnergies(samples, shape);
  SHOAL_RETURN_IF_ERROR(inner_->CheckEnergies(energies, shape));
  SHOAL_ASSIGN_OR_RETURN(const float step, StepOf(energies, values, shape, key));
  ReflectorCodes codes;
  codes.hidden = shape.hidden;
  if (MayTurn(energies, step)) {
    std::vector<const float*> rows;
    for (const std::size_t t : TokensToFit(energies.size(), shape.hidden, rank_)) {
      rows.push_back(samples[t / shape.tokens].data() + t % shape.tokens * shape.hidden);
    }
    codes = FitReflectors(rows, shape.hidden, energies, step, rank_, key);
  }
  const std::size_t start = WriteStart(codes, shape, samples.size(), out);
  const std::span<std::byte> body = out.subspan(start);
  SectionBytes bytes;
  if (codes.rank > 0) {
    const Reflectors turn(codes);
    SHOAL_ASSIGN_OR_RETURN(bytes, EncodeTurned(turn, step, samples, shape, key, body, decoded));
  } else {
    SHOAL_ASSIGN_OR_RETURN(
        bytes.rest, inner_->EncodeWithStep(samples, shape, energies, step, key, body, decoded));
  }
  return WriteSizes(start, bytes, out);
}

Result<KltCodec::Parts> KltCodec::Open(std::span<const std::byte> payload, SampleShape shape,
                                       std::size_t samples) const {
  SHOAL_RETURN_IF_ERROR(CheckHeader(payload, HeaderFor(shape, samples), spec_).status());
  const auto wrong = [&](const char* what) {
    return InvalidArgument("codec " + spec_ + ": " + what +
                           "; drop the message and ask for it again");
  };
  if (payload.size() < kReflectorsAt) return wrong("the sizes are cut off");
  const std::size_t side = LoadLittle<std::uint32_t>(payload.data() + kSizesAt);
  const std::size_t leading = LoadLittle<std::uint32_t>(payload.data() + kSizesAt + 4);
  const auto body = payload.subspan(kReflectorsAt);
  if (side > body.size() || leading > body.size() - side) {
    return wrong("the parts are larger than the message");
  }
  Parts parts;
  SHOAL_ASSIGN_OR_RETURN(parts.codes, ReadReflectors(body.first(side), rank_, shape.hidden, spec_));
  parts.leading = body.subspan(side, leading);
  parts.rest = body.subspan(side + leading);
  const auto rank = static_cast<std::uint32_t>(parts.codes.rank);
  if (rank == 0) {
    if (leading != 0) return wrong("leading values without reflectors");
    return parts;
  }
  for (const auto& [section, width] :
       {std::pair(parts.leading, rank), std::pair(parts.rest, shape.hidden - rank)}) {
    SHOAL_ASSIGN_OR_RETURN(const float step,
                           inner_->ReadStart(section, {shape.tokens, width}, samples));
    if (step < kStepLeast || step > kStepMost) {
      return wrong("the step is out of the range of turned values");
    }
  }
  return parts;
}

Status KltCodec::DecodeTurned(const Parts& parts, SampleShape shape, const RandomKey& key,
                              std::span<const std::span<float>> samples) const {
  const Reflectors turn(parts.codes);
  std::vector<bool> wanted;
  for (const auto& sample : samples) wanted.push_back(!sample.empty());
  Halves halves(shape, turn.rank(), wanted);
  SHOAL_RETURN_IF_ERROR(
      inner_->Decode(parts.leading, halves.leading_shape, key, halves.leading_samples));
  SHOAL_RETURN_IF_ERROR(
      inner_->Decode(parts.rest, halves.rest_shape, KeyOfRest(key), halves.rest_samples));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].empty()) continue;
    halves.Join(i, samples[i].data());
    turn.TurnBack(samples[i]);
  }
  return Status::Ok();
}

Status KltCodec::Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                        std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  SHOAL_ASSIGN_OR_RETURN(const Parts parts, Open(payload, shape, samples.size()));
  if (parts.codes.rank == 0) return inner_->Decode(parts.rest, shape, key, samples);
  return DecodeTurned(parts, shape, key, samples);
}

}  // namespace shoal::compression
