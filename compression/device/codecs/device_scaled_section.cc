#include "compression/device/codecs/device_scaled_section.h"

#include <string_view>
#include <utility>
#include <vector>

#include "compression/device/codecs/device_look.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kFactorsSlot = "channel_factors";
constexpr std::string_view kScaledSlot = "scaled";
constexpr std::string_view kFollowedSlot = "scaled_followed";

class DeviceScaledSection final : public DeviceSection {
 public:
  DeviceScaledSection(const ScaledCodec& codec, std::unique_ptr<DeviceSection> inner)
      : codec_(codec), inner_(std::move(inner)) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  DeviceContext InnerContext(const DeviceContext& context) const {
    DeviceContext inner = context;
    inner.spec = codec_.inner()->spec();
    return inner;
  }
  Result<ChannelExponents> ChooseExponents(const DeviceContext& context) const;
  // Puts the scaled x of samples into a slot, and lets their x be that.
  Status ScaleInto(const DeviceContext& context, std::string_view slot,
                   std::span<DeviceSample> samples) const;
  // Samples' x or values by 2^exponent, or its inverse.
  Status Scale(const DeviceContext& context, std::span<const DeviceSample> samples,
               bool inverse) const;

  const ScaledCodec& codec_;
  const std::unique_ptr<DeviceSection> inner_;
  ChannelExponents exponents_;  // of the section that is on the device
};

// As FitChannelExponents, of the samples that were sent last.
Result<ChannelExponents> DeviceScaledSection::ChooseExponents(const DeviceContext& context) const {
  const std::uint32_t hidden = context.shape.hidden;
  const std::size_t tokens = context.samples * context.shape.tokens;
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, TokenEnergies(context));
  const std::size_t stride = ChannelFit(tokens, hidden).stride();
  std::vector<LookRow> rows;
  for (std::size_t t = stride / 2; t < tokens; t += stride) {
    const float factor = ChannelFit::FactorOf(energies[t], hidden);
    if (factor != 0) rows.push_back(LookRowOf(t, context.shape, factor));
  }
  if (rows.empty()) return ChannelExponents();
  SHOAL_ASSIGN_OR_RETURN(const std::vector<float> squares,
                         LookAtTokens(context, LookPass::kSquares, hidden, rows));
  return ChannelFit::ExponentsOf(squares, rows.size());
}

Status DeviceScaledSection::Scale(const DeviceContext& context,
                                  std::span<const DeviceSample> samples, bool inverse) const {
  const std::vector<float> factors = ChannelFactors(exponents_, inverse);
  const std::size_t bytes = factors.size() * sizeof(float);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at, context.scratch->Reserve(kFactorsSlot, bytes));
  context.queue->ToDevice(at, factors.data(), bytes);
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  auto job = JobOf<ScaleJob>(context, samples.size());
  job.hidden = context.shape.hidden;
  job.factors = reinterpret_cast<const float*>(at);
  context.queue->Run(job);
  return context.queue->Wait();
}

Result<std::size_t> DeviceScaledSection::Encode(const DeviceContext& context,
                                                std::span<DeviceSample> samples, bool delta,
                                                std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= codec_.EncodedBytesMax(context.shape, samples.size()));
  const bool follows = codec_.follows_values() && !context.followed.empty();
  SHOAL_RETURN_IF_ERROR(follows ? SendFollowed(context) : SendSamples(context, samples));
  SHOAL_ASSIGN_OR_RETURN(exponents_, ChooseExponents(context));
  const std::size_t head = WriteScaledHead(exponents_, context.shape, samples.size(), out);
  std::vector<DeviceSample> scaled(samples.begin(), samples.end());
  DeviceContext inner = InnerContext(context);
  std::vector<const float*> followed;
  if (!exponents_.empty()) {
    SHOAL_RETURN_IF_ERROR(ScaleInto(context, kScaledSlot, scaled));
    std::vector<DeviceSample> values(follows ? context.followed.size() : 0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].x = context.followed[i];
    if (follows) SHOAL_RETURN_IF_ERROR(ScaleInto(context, kFollowedSlot, values));
    for (const DeviceSample& sample : values) followed.push_back(sample.x);
    inner.followed = followed;
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         inner_->Encode(inner, scaled, false, out.subspan(head)));
  return head + bytes;
}

Status DeviceScaledSection::ScaleInto(const DeviceContext& context, std::string_view slot,
                                      std::span<DeviceSample> samples) const {
  const std::size_t n = context.shape.values();
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(slot, samples.size() * n * sizeof(float)));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].values = reinterpret_cast<float*>(at) + i * n;
  }
  SHOAL_RETURN_IF_ERROR(Scale(context, samples, true));
  for (DeviceSample& sample : samples) sample.x = sample.values;
  return Status::Ok();
}

Status DeviceScaledSection::Stage(const DeviceContext& context,
                                  std::span<const std::byte> section) {
  SHOAL_ASSIGN_OR_RETURN(ScaledHead head,
                         ReadScaledHead(section, context.shape, context.samples, codec_.spec()));
  exponents_ = std::move(head.exponents);
  return inner_->Stage(InnerContext(context), section.subspan(head.bytes));
}

Status DeviceScaledSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                   bool delta) {
  SHOAL_CHECK(!delta);
  SHOAL_RETURN_IF_ERROR(inner_->Decode(InnerContext(context), samples, false));
  if (exponents_.empty()) return Status::Ok();
  std::vector<DeviceSample> decoded(samples.begin(), samples.end());
  for (DeviceSample& sample : decoded) sample.x = nullptr;
  return Scale(context, decoded, false);
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceScaledSection(const ScaledCodec& codec,
                                                      std::unique_ptr<DeviceSection> inner) {
  return std::make_unique<DeviceScaledSection>(codec, std::move(inner));
}

}  // namespace shoal::compression
