#include "compression/codecs/dithered/dithered_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "compression/api/message_noise.h"
#include "compression/api/sample_layout.h"
#include "compression/api/typical_energy.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/dithered/dither_channels.h"
#include "compression/codecs/dithered/dither_steering.h"
#include "compression/codecs/dithered/dither_tables.h"
#include "compression/codecs/dithered/dithered_section.h"
#include "compression/simd/dither_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kStepAt = kPayloadHeaderBytes;
static_assert(DitheredCodec::kSectionAt == kStepAt + 4);

constexpr std::uint32_t kStepBitsMin = 27U << 23;   // 2^-100
constexpr std::uint32_t kStepBitsMax = 246U << 23;  // 2^119
constexpr double kEnergyMax = 0x1p236;

Status Wrong(const std::string& spec, const std::string& what) {
  return InvalidArgument("codec " + spec + ": " + what + "; drop the message and ask for it again");
}

std::string SpecOf(DitherGoal goal, double value) {
  switch (goal) {
    case DitherGoal::kStep: return "dithered:step=" + NumberText(value);
    case DitherGoal::kRate: return "dithered:rate=" + NumberText(value);
    case DitherGoal::kError: return "dithered:error=" + NumberText(value);
  }
  return "dithered";
}

double TypicalTotal(std::span<const double> energies) {
  const double most = TypicalEnergyMost(energies);
  double total = 0;
  for (const double energy : energies) total += std::min(energy, most);
  return total;
}

// Cells of values in the CPU's memory.
class ValueCells final : public DitherCells {
 public:
  // `decoded` is empty, or receives what the message decodes to, tokens of class 0 aside.
  ValueCells(std::span<const std::span<const float>> samples, SampleShape shape, float step,
             const PartDither& dither, std::span<const std::span<float>> decoded)
      : samples_(samples),
        shape_(shape),
        step_(step),
        inverse_(1.0F / step),
        dither_(dither),
        decoded_(decoded) {}

  Status Begin(std::span<std::uint8_t>) override { return Status::Ok(); }
  void Make(const TokenPart& part, std::uint8_t* cells) override;
  Result<std::vector<std::int32_t>> FarCodes() override { return std::move(far_codes_); }

 private:
  const std::span<const std::span<const float>> samples_;
  const SampleShape shape_;
  const float step_, inverse_;
  PartDither dither_;
  const std::span<const std::span<float>> decoded_;
  std::vector<std::int32_t> far_codes_;
};

void ValueCells::Make(const TokenPart& part, std::uint8_t* cells) {
  const std::size_t sample = part.token / shape_.tokens;
  const std::size_t offset = part.token % shape_.tokens * shape_.hidden + part.first;
  const float* x = samples_[sample].data() + offset;
  const std::uint16_t* words = dither_.Draw(part);
  const bool escapes = QuantiseDithered(x, words, part.count, inverse_, part.wide, cells);
  const std::size_t first_far = far_codes_.size();
  const std::uint8_t mask = part.wide ? 0xff : kNarrowSymbolMask;
  for (std::size_t i = 0; escapes && i < part.count; ++i) {
    if ((cells[i] & mask) == 0) far_codes_.push_back(DitheredCode(x[i], words[i], inverse_));
  }
  if (decoded_.empty()) return;
  float* values = decoded_[sample].data() + offset;
  DequantiseDithered(cells, words, part.count, step_, part.wide, values);
  for (std::size_t i = 0, far = first_far; far < far_codes_.size(); ++i) {
    if ((cells[i] & mask) != 0) continue;
    values[i] = DitheredValue(far_codes_[far++], words[i], step_);
  }
}

// Symbols to values in the CPU's memory. An empty sample is passed over.
class SymbolValues final : public DitherSymbols {
 public:
  SymbolValues(std::span<const std::span<float>> samples, SampleShape shape, float step)
      : samples_(samples), shape_(shape), step_(step) {}

  bool wants_dither() const override { return true; }
  void TakeZeros(std::size_t token) override {
    if (float* to = At(token); to != nullptr) std::fill_n(to, shape_.hidden, 0.0F);
  }
  void Take(const TokenPart& part, const std::uint8_t* symbols,
            const std::uint16_t* words) override {
    float* to = At(part.token);
    if (to == nullptr) return;
    DequantiseDithered(symbols, words, part.count, step_, part.wide, to + part.first);
  }
  void TakeEscape(const TokenPart& part, std::size_t i, std::int32_t code,
                  const std::uint16_t* words) override {
    float* to = At(part.token);
    if (to != nullptr) to[part.first + i] = DitheredValue(code, words[i], step_);
  }

 private:
  float* At(std::size_t token) const {
    const std::span<float> sample = samples_[token / shape_.tokens];
    return sample.empty() ? nullptr : sample.data() + token % shape_.tokens * shape_.hidden;
  }

  const std::span<const std::span<float>> samples_;
  const SampleShape shape_;
  const float step_;
};

// The values of a token.
const float* TokenOf(std::span<const std::span<const float>> samples, SampleShape shape,
                     std::size_t token) {
  return samples[token / shape.tokens].data() + token % shape.tokens * shape.hidden;
}

ChannelOffsets OffsetsFor(std::span<const double> energies,
                          std::span<const std::span<const float>> samples, SampleShape shape) {
  const std::vector<LookedToken> looked = TokensToLookAt(energies, shape.hidden);
  std::vector<float> squares(shape.hidden);
  for (const LookedToken& l : looked) {
    AddScaledSquares(TokenOf(samples, shape, l.token), l.scale, shape.hidden, squares.data());
  }
  return FitChannels(squares, looked.size(), energies.size());
}

PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) {
  PayloadHeader header;
  header.codec = CodecId::kDithered;
  header.type = ValueType::kFp32;
  header.values = samples * shape.values();
  return header;
}

}  // namespace

std::vector<double> TokenEnergies(std::span<const std::span<const float>> samples,
                                  SampleShape shape) {
  std::vector<double> energies;
  energies.reserve(samples.size() * shape.tokens);
  for (const auto& sample : samples) {
    for (std::size_t at = 0; at < sample.size(); at += shape.hidden) {
      energies.push_back(SumOfSquares(sample.data() + at, shape.hidden));
    }
  }
  return energies;
}

DitheredCodec::DitheredCodec(DitherGoal goal, double value, DitheredForm form)
    : goal_(goal),
      value_(value),
      form_(form),
      spec_(SpecOf(goal, value) + (form.dithered ? "" : ",dither=off") +
            (form.of_values ? ",of=values" : "")) {}

namespace {

// The step over the rms that takes at least twice the bits of `step`. A small step takes
// log2(sqrt(2 pi e) / step) bits of Gaussian values, so its square by sqrt(2 pi e) = 4.13 takes
// twice that; 4.5 makes up for what large steps take besides, and so does the quarter.
double StepOfTwiceTheBits(double step) {
  return std::max(std::min(step / 4, step * step / 4.5), kDitherStepMin);
}

}  // namespace

std::shared_ptr<const PlainCodec> DitheredCodec::Wider() const { return Finer(); }

std::shared_ptr<const DitheredCodec> DitheredCodec::Finer() const {
  const double root = std::sqrt(12.0);
  double value = 0;
  switch (goal_) {
    case DitherGoal::kStep: value = StepOfTwiceTheBits(value_); break;
    case DitherGoal::kRate: value = std::min(2 * value_, kDitherRateMax); break;
    case DitherGoal::kError:
      value = std::max(StepOfTwiceTheBits(value_ * root) / root, kDitherErrorMin);
      break;
  }
  return std::make_shared<const DitheredCodec>(goal_, value, form_);
}

std::size_t DitheredCodec::EncodedBytesMax(SampleShape shape, std::size_t samples) const {
  // A step that follows the typical token, or other values, may be any part of the others.
  const Escapes escapes = form_.typical || form_.of_values ? Escapes::kAny : Escapes::kFew;
  return kSectionAt + DitheredSectionBytesMax(shape, samples, escapes);
}

Status DitheredCodec::CheckEnergies(std::span<const double> energies, SampleShape shape) const {
  for (std::size_t t = 0; t < energies.size(); ++t) {
    if (energies[t] <= kEnergyMax) continue;
    return InvalidArgument(
        "codec " + spec_ + ": token " + std::to_string(t % shape.tokens) +
        (std::isfinite(energies[t]) ? " is larger than 2^118" : " has a value that is not finite") +
        "; nothing is sent, lower the learning rate or look for the layer "
        "that overflows");
  }
  return Status::Ok();
}

double DitheredCodec::WantedStep(std::span<const double> energies, double rms,
                                 std::span<const float* const> rows, std::uint32_t hidden,
                                 const RandomKey& key) const {
  switch (goal_) {
    case DitherGoal::kStep: return value_ * rms;
    case DitherGoal::kRate:
      return StepForRate(value_, energies, rows, hidden, MessageKeyWords(key), kDitherStepMin,
                         kDitherStepMax);
    case DitherGoal::kError: break;
  }
  // The error of every value is step / sqrt(12), tokens of zeros aside, which are exact.
  const auto silent = std::count(energies.begin(), energies.end(), 0.0);
  const double noisy = 1 - static_cast<double>(silent) / static_cast<double>(energies.size());
  return rms * std::clamp(value_ * std::sqrt(12 / noisy), kDitherStepMin, kDitherStepMax);
}

Result<float> DitheredCodec::StepFor(std::span<const double> energies,
                                     std::span<const float* const> rows, std::uint32_t hidden,
                                     const RandomKey& key) const {
  const double total = form_.typical ? TypicalTotal(energies)
                                     : std::accumulate(energies.begin(), energies.end(), 0.0);
  const auto values = static_cast<double>(energies.size()) * hidden;
  const double rms = std::sqrt(total / values);
  // Down here even the largest step counts as zero.
  if (rms * kDitherStepMax < 0x1p-100) return 0.0F;
  // No code beyond 2^22 - 1: then it is exact in fp32, and so is the arithmetic on it.
  const double most = std::sqrt(*std::max_element(energies.begin(), energies.end()));
  const double wanted = WantedStep(energies, rms, rows, hidden, key);
  const auto step = static_cast<float>(std::max(wanted, most / (kDitheredCodeMax - 2)));
  if (std::bit_cast<std::uint32_t>(step) < kStepBitsMin) return 0.0F;
  if (std::bit_cast<std::uint32_t>(step) <= kStepBitsMax) return step;
  return InvalidArgument("codec " + spec_ + ": the step would exceed 2^119; nothing is sent, " +
                         "lower the learning rate or look for the layer that overflows");
}

Result<float> DitheredCodec::StepOfChanges(std::span<const double> changes,
                                           std::span<const double> values, std::uint32_t hidden,
                                           const RandomKey& key) const {
  SHOAL_ASSIGN_OR_RETURN(const float step, StepFor(values, {}, hidden, key));
  if (step == 0) return StepFor(changes, {}, hidden, key);
  const double most = std::sqrt(*std::max_element(changes.begin(), changes.end()));
  return std::max(step, static_cast<float>(most / (kDitheredCodeMax - 2)));
}

std::vector<std::uint8_t> DitheredCodec::ClassesFor(std::span<const double> energies,
                                                    std::uint32_t hidden, float step) {
  std::vector<std::uint8_t> classes(energies.size());
  if (step == 0) return classes;
  for (std::size_t t = 0; t < classes.size(); ++t) {
    classes[t] = EnergyClassOf(energies[t], hidden, step);
  }
  MergeSmallClasses(hidden, classes);
  return classes;
}

void DitheredCodec::WriteStart(SampleShape shape, std::size_t samples, float step,
                               std::byte* out) const {
  WritePayloadHeader(HeaderFor(shape, samples), out);
  StoreLittle(out + kStepAt, std::bit_cast<std::uint32_t>(step));
}

Result<std::size_t> DitheredCodec::Encode(std::span<const std::span<const float>> samples,
                                          SampleShape shape, const RandomKey& key,
                                          std::span<std::byte> out,
                                          std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  const std::vector<double> energies = TokenEnergies(samples, shape);
  SHOAL_RETURN_IF_ERROR(CheckEnergies(energies, shape));
  std::vector<const float*> rows;
  if (wants_rows()) {
    for (const std::size_t t : SteeringTokens(energies.size())) {
      rows.push_back(TokenOf(samples, shape, t));
    }
  }
  SHOAL_ASSIGN_OR_RETURN(const float step, StepFor(energies, rows, shape.hidden, key));
  return EncodeWithStep(samples, shape, energies, step, key, out, decoded);
}

Result<std::size_t> DitheredCodec::EncodeChanges(std::span<const std::span<const float>> changes,
                                                 std::span<const std::span<const float>> values,
                                                 SampleShape shape, const RandomKey& key,
                                                 std::span<std::byte> out,
                                                 std::span<const std::span<float>> decoded) const {
  if (!form_.of_values || values.empty()) return Encode(changes, shape, key, out, decoded);
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, changes, false, spec_));
  SHOAL_CHECK(values.size() == changes.size());
  SHOAL_CHECK(decoded.empty() || decoded.size() == changes.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, changes.size()));
  const std::vector<double> energies = TokenEnergies(changes, shape);
  const std::vector<double> followed = TokenEnergies(values, shape);
  SHOAL_RETURN_IF_ERROR(CheckEnergies(energies, shape));
  SHOAL_RETURN_IF_ERROR(CheckEnergies(followed, shape));
  SHOAL_ASSIGN_OR_RETURN(const float step, StepOfChanges(energies, followed, shape.hidden, key));
  return EncodeWithStep(changes, shape, energies, step, key, out, decoded);
}

Result<std::size_t> DitheredCodec::EncodeWithStep(std::span<const std::span<const float>> samples,
                                                  SampleShape shape,
                                                  std::span<const double> energies, float step,
                                                  const RandomKey& key, std::span<std::byte> out,
                                                  std::span<const std::span<float>> decoded) const {
  WriteStart(shape, samples.size(), step, out.data());
  const std::vector<std::uint8_t> classes = ClassesFor(energies, shape.hidden, step);
  for (std::size_t t = 0; !decoded.empty() && t < classes.size(); ++t) {
    if (classes[t] != 0) continue;
    std::fill_n(decoded[t / shape.tokens].data() + t % shape.tokens * shape.hidden, shape.hidden,
                0.0F);
  }
  if (step == 0) return kSectionAt;
  const ChannelOffsets offsets = OffsetsFor(energies, samples, shape);
  ValueCells cells(samples, shape, step, PartDither(key, form_.dithered), decoded);
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      WriteDitheredSection({shape, classes, offsets}, &cells, out.subspan(kSectionAt)));
  return kSectionAt + bytes;
}

Result<float> DitheredCodec::ReadStart(std::span<const std::byte> payload, SampleShape shape,
                                       std::size_t samples) const {
  const auto header = CheckHeader(payload, HeaderFor(shape, samples), spec_);
  if (!header.ok()) return header.status();
  if (payload.size() < kSectionAt) return Wrong(spec_, "the step is cut off");
  const auto step_bits = LoadLittle<std::uint32_t>(payload.data() + kStepAt);
  if (step_bits == 0 && payload.size() != kSectionAt) {
    return Wrong(spec_, "bytes behind a step of 0");
  }
  if (step_bits != 0 && (step_bits < kStepBitsMin || step_bits > kStepBitsMax)) {
    return Wrong(spec_, "the step has the bits " + std::to_string(step_bits) +
                            ", allowed is 0 or " + std::to_string(kStepBitsMin) + " to " +
                            std::to_string(kStepBitsMax));
  }
  return std::bit_cast<float>(step_bits);
}

Status DitheredCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                             const RandomKey& key,
                             std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  SHOAL_ASSIGN_OR_RETURN(const float step, ReadStart(payload, shape, samples.size()));
  if (step == 0) {
    for (const auto& sample : samples) std::fill(sample.begin(), sample.end(), 0.0F);
    return Status::Ok();
  }
  SymbolValues symbols(samples, shape, step);
  return ReadDitheredSection(payload.subspan(kSectionAt), shape, samples.size(),
                             PartDither(key, form_.dithered), step, spec_, &symbols);
}

}  // namespace shoal::compression
