#include "compression/device/codecs/device_klt_section.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compression/codecs/klt/klt_fit.h"
#include "compression/device/codecs/device_dithered_section.h"
#include "compression/device/codecs/device_look.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kProductsSlot = "turn_products";
constexpr std::string_view kLeadingSlot = "turned_leading";
constexpr std::string_view kRestSlot = "turned_rest";
// Of each way, the factor of the products and that of the differences.
constexpr std::string_view kFactorSlots[2][2] = {{"turn_w", "turn_yt"}, {"turn_y", "turn_wt"}};
constexpr std::size_t kRowsMost = (std::size_t{1} << 31) - 1;

Status CheckRows(std::size_t tokens, const std::string& spec) {
  if (tokens <= kRowsMost) return Status::Ok();
  return InvalidArgument("codec " + spec + ": a message of " + std::to_string(tokens) +
                         " tokens; a device turns " + std::to_string(kRowsMost) +
                         " at most, use the CPU");
}

// One part of turned tokens as a message of its own, with scratch memory of its own.
struct Half {
  DeviceContext context;
  std::vector<DeviceSample> samples;
};

class DeviceKltSection final : public DeviceSection {
 public:
  explicit DeviceKltSection(const KltCodec& codec)
      : codec_(codec),
        whole_(NewDeviceStepSection(codec.inner())),
        leading_(NewDeviceStepSection(codec.inner())),
        rest_(NewDeviceStepSection(codec.inner())) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  Result<ReflectorCodes> Fit(const DeviceContext& context, std::span<const double> energies,
                             float step) const;
  // Sends the factors with which tokens are turned, `back` or not.
  Status SendFactors(const DeviceContext& context, const Reflectors& turn, bool back);
  // Turns the samples that were sent last, whose parts are reserved.
  Status Turn(const DeviceContext& context, std::size_t samples, bool back) const;
  Result<Half> ReserveHalf(const DeviceContext& context, std::span<const DeviceSample> samples,
                           bool leading) const;
  static Result<std::size_t> EncodeHalf(Half* half, DeviceStepSection* section, float step,
                                        std::span<std::byte> out);
  Result<KltCodec::SectionBytes> EncodeTurned(const DeviceContext& context,
                                              std::span<const DeviceSample> samples,
                                              const Reflectors& turn, float step,
                                              std::span<std::byte> out);

  const KltCodec& codec_;
  const std::unique_ptr<DeviceStepSection> whole_, leading_, rest_;
  // Of the section that is on the device.
  std::uint32_t rank_ = 0;
  std::uint32_t width_ = 0, stride_ = 0;  // of the factors
};

Result<ReflectorCodes> DeviceKltSection::Fit(const DeviceContext& context,
                                             std::span<const double> energies, float step) const {
  const std::uint32_t hidden = context.shape.hidden;
  ReflectorCodes none;
  none.hidden = hidden;
  if (!KltCodec::MayTurn(energies, step)) return none;
  std::vector<LookRow> looked;
  for (const std::size_t t : TokensToFit(energies.size(), hidden, codec_.rank_most())) {
    looked.push_back(LookRowOf(t, context.shape, 0));
  }
  if (looked.empty()) return none;
  SHOAL_ASSIGN_OR_RETURN(const std::vector<float> values,
                         LookAtTokens(context, LookPass::kRows, hidden, looked));
  std::vector<const float*> rows;
  for (std::size_t i = 0; i < looked.size(); ++i) rows.push_back(values.data() + i * hidden);
  return FitReflectors(rows, hidden, energies, step, codec_.rank_most(), context.key);
}

Status DeviceKltSection::SendFactors(const DeviceContext& context, const Reflectors& turn,
                                     bool back) {
  width_ = static_cast<std::uint32_t>(turn.width());
  stride_ = static_cast<std::uint32_t>(turn.stride());
  const std::span<const float> factors[] = {back ? turn.y() : turn.w(),
                                            back ? turn.wt() : turn.yt()};
  for (std::size_t i = 0; i < 2; ++i) {
    SHOAL_ASSIGN_OR_RETURN(
        std::byte* const at,
        context.scratch->Reserve(kFactorSlots[back ? 1 : 0][i], factors[i].size_bytes()));
    context.queue->ToDevice(at, factors[i].data(), factors[i].size_bytes());
  }
  return context.queue->Wait();
}

Status DeviceKltSection::Turn(const DeviceContext& context, std::size_t samples, bool back) const {
  DeviceScratch* const scratch = context.scratch;
  const std::size_t products = samples * context.shape.tokens * rank_;
  SHOAL_RETURN_IF_ERROR(scratch->Reserve(kProductsSlot, products * sizeof(float)).status());
  TurnJob job;
  job.back = back;
  job.rank = rank_;
  job.hidden = context.shape.hidden;
  job.tokens = context.shape.tokens;
  job.count = static_cast<std::uint32_t>(samples);
  job.samples = reinterpret_cast<const DeviceSample*>(scratch->Get(kSamplesSlot));
  job.products = reinterpret_cast<float*>(scratch->Get(kProductsSlot));
  job.leading = reinterpret_cast<float*>(scratch->Get(kLeadingSlot));
  job.rest = reinterpret_cast<float*>(scratch->Get(kRestSlot));
  for (const TurnPass pass : {TurnPass::kProducts, TurnPass::kDifferences}) {
    const bool second = pass == TurnPass::kDifferences;
    job.pass = pass;
    job.factor =
        reinterpret_cast<const float*>(scratch->Get(kFactorSlots[back ? 1 : 0][second ? 1 : 0]));
    job.stride = second ? stride_ : width_;
    context.queue->Run(job);
  }
  return context.queue->Wait();
}

// The samples of the part have both x and values there.
Result<Half> DeviceKltSection::ReserveHalf(const DeviceContext& context,
                                           std::span<const DeviceSample> samples,
                                           bool leading) const {
  Half half{context, {}};
  half.context.shape.hidden = leading ? rank_ : context.shape.hidden - rank_;
  half.context.scratch = context.scratch->Inside(leading ? kLeadingSlot : kRestSlot);
  if (!leading) half.context.key = KltCodec::KeyOfRest(context.key);
  const std::size_t n = half.context.shape.values();
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(leading ? kLeadingSlot : kRestSlot,
                                                  samples.size() * n * sizeof(float)));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    DeviceSample sample;
    sample.values = reinterpret_cast<float*>(at) + i * n;
    sample.x = sample.values;
    sample.index = samples[i].index;
    half.samples.push_back(sample);
  }
  return half;
}

Result<std::size_t> DeviceKltSection::EncodeHalf(Half* half, DeviceStepSection* section, float step,
                                                 std::span<std::byte> out) {
  SHOAL_RETURN_IF_ERROR(SendSamples(half->context, half->samples));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, TokenEnergies(half->context));
  return section->EncodeWithStep(half->context, energies, step, out);
}

Result<KltCodec::SectionBytes> DeviceKltSection::EncodeTurned(const DeviceContext& context,
                                                              std::span<const DeviceSample> samples,
                                                              const Reflectors& turn, float step,
                                                              std::span<std::byte> out) {
  SHOAL_ASSIGN_OR_RETURN(Half leading, ReserveHalf(context, samples, true));
  SHOAL_ASSIGN_OR_RETURN(Half rest, ReserveHalf(context, samples, false));
  SHOAL_RETURN_IF_ERROR(SendFactors(context, turn, false));
  SHOAL_RETURN_IF_ERROR(Turn(context, samples.size(), false));
  SHOAL_RETURN_IF_ERROR(SendFactors(context, turn, true));
  KltCodec::SectionBytes bytes;
  SHOAL_ASSIGN_OR_RETURN(bytes.leading, EncodeHalf(&leading, leading_.get(), step, out));
  SHOAL_ASSIGN_OR_RETURN(bytes.rest,
                         EncodeHalf(&rest, rest_.get(), step, out.subspan(bytes.leading)));
  return bytes;
}

Result<std::size_t> DeviceKltSection::Encode(const DeviceContext& context,
                                             std::span<DeviceSample> samples, bool delta,
                                             std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= codec_.EncodedBytesMax(context.shape, samples.size()));
  const SampleShape shape = context.shape;
  SHOAL_RETURN_IF_ERROR(CheckRows(samples.size() * shape.tokens, codec_.spec()));
  const DitheredCodec& inner = codec_.inner();
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> followed, FollowedEnergies(context, inner));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, TokenEnergies(context));
  SHOAL_RETURN_IF_ERROR(inner.CheckEnergies(energies, shape));
  SHOAL_ASSIGN_OR_RETURN(const float step,
                         followed.empty()
                             ? inner.StepFor(energies, {}, shape.hidden, context.key)
                             : inner.StepOfChanges(energies, followed, shape.hidden, context.key));
  SHOAL_ASSIGN_OR_RETURN(const ReflectorCodes codes, Fit(context, energies, step));
  rank_ = static_cast<std::uint32_t>(codes.rank);
  const std::size_t start = KltCodec::WriteStart(codes, shape, samples.size(), out);
  const std::span<std::byte> body = out.subspan(start);
  KltCodec::SectionBytes bytes;
  if (rank_ == 0) {
    SHOAL_ASSIGN_OR_RETURN(bytes.rest, whole_->EncodeWithStep(context, energies, step, body));
  } else {
    SHOAL_ASSIGN_OR_RETURN(bytes, EncodeTurned(context, samples, Reflectors(codes), step, body));
  }
  return KltCodec::WriteSizes(start, bytes, out);
}

Status DeviceKltSection::Stage(const DeviceContext& context, std::span<const std::byte> section) {
  SHOAL_ASSIGN_OR_RETURN(const KltCodec::Parts parts,
                         codec_.Open(section, context.shape, context.samples));
  rank_ = static_cast<std::uint32_t>(parts.codes.rank);
  if (rank_ == 0) return whole_->Stage(context, parts.rest);
  SHOAL_ASSIGN_OR_RETURN(const Half leading, ReserveHalf(context, {}, true));
  SHOAL_ASSIGN_OR_RETURN(const Half rest, ReserveHalf(context, {}, false));
  SHOAL_RETURN_IF_ERROR(leading_->Stage(leading.context, parts.leading));
  SHOAL_RETURN_IF_ERROR(rest_->Stage(rest.context, parts.rest));
  return SendFactors(context, Reflectors(parts.codes), true);
}

Status DeviceKltSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                bool delta) {
  SHOAL_CHECK(!delta);
  if (rank_ == 0) return whole_->Decode(context, samples, false);
  SHOAL_RETURN_IF_ERROR(CheckRows(samples.size() * context.shape.tokens, codec_.spec()));
  SHOAL_ASSIGN_OR_RETURN(Half leading, ReserveHalf(context, samples, true));
  SHOAL_ASSIGN_OR_RETURN(Half rest, ReserveHalf(context, samples, false));
  SHOAL_RETURN_IF_ERROR(leading_->Decode(leading.context, leading.samples, false));
  SHOAL_RETURN_IF_ERROR(rest_->Decode(rest.context, rest.samples, false));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  return Turn(context, samples.size(), true);
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceKltSection(const KltCodec& codec) {
  return std::make_unique<DeviceKltSection>(codec);
}

}  // namespace shoal::compression
