#include "compression/dithered_codec.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "compression/dither_channels.h"
#include "compression/dither_kernels.h"
#include "compression/dither_steering.h"
#include "compression/dither_tables.h"
#include "compression/dithered_section.h"
#include "compression/message_noise.h"
#include "compression/sample_layout.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kStepAt = kPayloadHeaderBytes;
constexpr std::size_t kSectionAt = kStepAt + 4;

constexpr std::uint32_t kStepBitsMin = 27U << 23;   // 2^-100
constexpr std::uint32_t kStepBitsMax = 246U << 23;  // 2^119
constexpr double kEnergyMax = 0x1p236;

Status Wrong(const std::string& spec, const std::string& what) {
  return InvalidArgument("codec " + spec + ": " + what + "; drop the message and ask for it again");
}

std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

std::string SpecOf(DitherGoal goal, double value) {
  switch (goal) {
    case DitherGoal::kStep: return "dithered:step=" + NumberText(value);
    case DitherGoal::kRate: return "dithered:rate=" + NumberText(value);
    case DitherGoal::kError: return "dithered:error=" + NumberText(value);
  }
  return "dithered";
}

class DitheredCodec : public PlainCodec {
 public:
  DitheredCodec(DitherGoal goal, double value)
      : goal_(goal), value_(value), spec_(SpecOf(goal, value)) {}

  const std::string& spec() const override { return spec_; }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return kSectionAt + DitheredSectionBytesMax(shape, samples);
  }

  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) const {
    PayloadHeader header;
    header.codec = CodecId::kDithered;
    header.type = ValueType::kFp32;
    header.values = samples * shape.values();
    return header;
  }
  // The energies of the tokens in order, or why the message cannot be sent.
  Result<std::vector<double>> Energies(std::span<const std::span<const float>> samples,
                                       SampleShape shape) const;
  // 0: everything is too small to be told from zero.
  Result<float> StepFor(std::span<const double> energies,
                        std::span<const std::span<const float>> samples, SampleShape shape,
                        const RandomKey& key) const;
  double WantedStep(std::span<const double> energies, double rms,
                    std::span<const std::span<const float>> samples, SampleShape shape,
                    const RandomKey& key) const;

  DitherGoal goal_;
  double value_;
  std::string spec_;
};

Result<std::vector<double>> DitheredCodec::Energies(std::span<const std::span<const float>> samples,
                                                    SampleShape shape) const {
  std::vector<double> energies;
  energies.reserve(samples.size() * shape.tokens);
  for (const auto& sample : samples) {
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      energies.push_back(SumOfSquares(sample.data() + t * shape.hidden, shape.hidden));
      if (energies.back() <= kEnergyMax) continue;
      return InvalidArgument("codec " + spec_ + ": token " + std::to_string(t) +
                             (std::isfinite(energies.back()) ? " is larger than 2^118"
                                                             : " has a value that is not finite") +
                             "; nothing is sent, lower the learning rate or look for the layer "
                             "that overflows");
    }
  }
  return energies;
}

double DitheredCodec::WantedStep(std::span<const double> energies, double rms,
                                 std::span<const std::span<const float>> samples, SampleShape shape,
                                 const RandomKey& key) const {
  switch (goal_) {
    case DitherGoal::kStep: return value_ * rms;
    case DitherGoal::kRate:
      return StepForRate(value_, energies, samples, shape, MessageKeyWords(key), kDitherStepMin,
                         kDitherStepMax);
    case DitherGoal::kError: break;
  }
  // The error of every value is step / sqrt(12), tokens of zeros aside, which are exact.
  const auto silent = std::count(energies.begin(), energies.end(), 0.0);
  const double noisy = 1 - static_cast<double>(silent) / static_cast<double>(energies.size());
  return rms * std::clamp(value_ * std::sqrt(12 / noisy), kDitherStepMin, kDitherStepMax);
}

Result<float> DitheredCodec::StepFor(std::span<const double> energies,
                                     std::span<const std::span<const float>> samples,
                                     SampleShape shape, const RandomKey& key) const {
  double total = 0;
  for (const double energy : energies) total += energy;
  const auto values = static_cast<double>(energies.size()) * shape.hidden;
  const double rms = std::sqrt(total / values);
  // Down here even the largest step counts as zero.
  if (rms * kDitherStepMax < 0x1p-100) return 0.0F;
  // No code beyond 2^22 - 1: then it is exact in fp32, and so is the arithmetic on it.
  const double most = std::sqrt(*std::max_element(energies.begin(), energies.end()));
  const double wanted = WantedStep(energies, rms, samples, shape, key);
  const auto step = static_cast<float>(std::max(wanted, most / (kDitheredCodeMax - 2)));
  if (std::bit_cast<std::uint32_t>(step) < kStepBitsMin) return 0.0F;
  if (std::bit_cast<std::uint32_t>(step) <= kStepBitsMax) return step;
  return InvalidArgument("codec " + spec_ + ": the step would exceed 2^119; nothing is sent, " +
                         "lower the learning rate or look for the layer that overflows");
}

Result<std::size_t> DitheredCodec::Encode(std::span<const std::span<const float>> samples,
                                          SampleShape shape, const RandomKey& key,
                                          std::span<std::byte> out,
                                          std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, Energies(samples, shape));
  SHOAL_ASSIGN_OR_RETURN(const float step, StepFor(energies, samples, shape, key));
  WritePayloadHeader(HeaderFor(shape, samples.size()), out.data());
  StoreLittle(out.data() + kStepAt, std::bit_cast<std::uint32_t>(step));
  std::vector<std::uint8_t> classes(energies.size());
  if (step != 0) {
    for (std::size_t t = 0; t < classes.size(); ++t) {
      classes[t] = EnergyClassOf(energies[t], shape.hidden, step);
    }
    MergeSmallClasses(shape.hidden, classes);
  }
  if (!decoded.empty()) {
    for (std::size_t t = 0; t < classes.size(); ++t) {
      if (classes[t] != 0) continue;
      std::fill_n(decoded[t / shape.tokens].data() + t % shape.tokens * shape.hidden, shape.hidden,
                  0.0F);
    }
  }
  if (step == 0) return kSectionAt;
  const ChannelOffsets offsets = FitChannels(energies, samples, shape);
  const DitheredMessage message = {samples, shape, key, step, classes, offsets};
  return kSectionAt + WriteDitheredSection(message, out.subspan(kSectionAt), decoded);
}

Status DitheredCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                             const RandomKey& key,
                             std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  const auto header = CheckHeader(payload, HeaderFor(shape, samples.size()), spec_);
  if (!header.ok()) return header.status();
  if (payload.size() < kSectionAt) return Wrong(spec_, "the step is cut off");
  const auto step_bits = LoadLittle<std::uint32_t>(payload.data() + kStepAt);
  if (step_bits == 0) {
    if (payload.size() != kSectionAt) return Wrong(spec_, "bytes behind a step of 0");
    for (const auto& sample : samples) std::fill(sample.begin(), sample.end(), 0.0F);
    return Status::Ok();
  }
  if (step_bits < kStepBitsMin || step_bits > kStepBitsMax) {
    return Wrong(spec_, "the step has the bits " + std::to_string(step_bits) +
                            ", allowed is 0 or " + std::to_string(kStepBitsMin) + " to " +
                            std::to_string(kStepBitsMax));
  }
  return ReadDitheredSection(payload.subspan(kSectionAt), shape, key,
                             std::bit_cast<float>(step_bits), samples, spec_);
}

}  // namespace

std::shared_ptr<const PlainCodec> NewDitheredCodec(DitherGoal goal, double value) {
  return std::make_shared<DitheredCodec>(goal, value);
}

Result<std::shared_ptr<const PlainCodec>> MakeDitheredCodec(std::string_view key,
                                                            std::string_view text) {
  struct Option {
    std::string_view key;
    DitherGoal goal;
    double least, most;
  };
  static constexpr Option kOptions[] = {
      {"step", DitherGoal::kStep, kDitherStepMin, kDitherStepMax},
      {"rate", DitherGoal::kRate, kDitherRateMin, kDitherRateMax},
      {"error", DitherGoal::kError, kDitherErrorMin, kDitherErrorMax}};
  for (const Option& option : kOptions) {
    if (option.key != key) continue;
    double value = 0;
    const bool decimal = text.size() <= 16 && !text.empty() &&
                         text.find_first_not_of("0123456789.") == std::string_view::npos;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!decimal || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
        value < option.least || value > option.most) {
      return InvalidArgument(std::string(key) + "=" + std::string(text.substr(0, 32)) +
                             " is not a number from " + NumberText(option.least) + " to " +
                             NumberText(option.most));
    }
    return NewDitheredCodec(option.goal, value);
  }
  return InvalidArgument("unknown option '" + std::string(key.substr(0, 32)) +
                         "'; dithered knows step, rate, error");
}

}  // namespace shoal::compression
