#include "compression/device/codecs/device_dithered_section.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "compression/api/message_noise.h"
#include "compression/codecs/dithered/dither_channels.h"
#include "compression/codecs/dithered/dither_steering.h"
#include "compression/codecs/dithered/dither_tables.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/dithered/dithered_section.h"
#include "compression/device/codecs/device_look.h"

namespace shoal::compression {
namespace {

// Scales hold energies, then kinds; codes hold cells.
constexpr std::string_view kEscapesSlot = "escapes";

DitherKind KindOf(std::uint8_t energy_class) {
  if (energy_class == 0) return DitherKind::kZeros;
  return IsWideClass(energy_class) ? DitherKind::kWide : DitherKind::kNarrow;
}

// Where the cells are that have symbol 0: wide, or with any dither in front.
bool HasEscape(std::span<const std::uint8_t> cells, bool wide) {
  for (int context = 0; context < (wide ? 1 : 4); ++context) {
    const int cell = context * (kNarrowSymbolMask + 1);
    if (std::memchr(cells.data(), cell, cells.size()) != nullptr) return true;
  }
  return false;
}

// Symbols and escapes of a section, for the device.
class StagedSymbols final : public DitherSymbols {
 public:
  StagedSymbols(SampleShape shape, std::size_t samples)
      : shape_(shape), kinds_(samples * shape.tokens), cells_(samples * shape.values()) {}

  bool wants_dither() const override { return false; }
  void TakeZeros(std::size_t token) override { kinds_[token] = DitherKind::kZeros; }
  void Take(const TokenPart& part, const std::uint8_t* symbols, const std::uint16_t*) override {
    kinds_[part.token] = part.wide ? DitherKind::kWide : DitherKind::kNarrow;
    std::memcpy(cells_.data() + part.token * shape_.hidden + part.first, symbols, part.count);
  }
  void TakeEscape(const TokenPart& part, std::size_t i, std::int32_t code,
                  const std::uint16_t*) override {
    escapes_.push_back(EscapeAt(part, i, shape_, code));
  }

  static DitherEscape EscapeAt(const TokenPart& part, std::size_t i, SampleShape shape,
                               std::int32_t code) {
    const std::size_t token = part.token % shape.tokens;
    return {static_cast<std::uint32_t>(part.token / shape.tokens),
            static_cast<std::uint32_t>(token * shape.hidden + part.first + i), code};
  }
  std::span<const DitherKind> kinds() const { return kinds_; }
  std::span<const std::uint8_t> cells() const { return cells_; }
  std::vector<DitherEscape>& escapes() { return escapes_; }

 private:
  const SampleShape shape_;
  std::vector<DitherKind> kinds_;
  std::vector<std::uint8_t> cells_;
  std::vector<DitherEscape> escapes_;
};

class DeviceDitheredSection final : public DeviceStepSection {
 public:
  explicit DeviceDitheredSection(const DitheredCodec& codec) : codec_(codec) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Result<std::size_t> EncodeWithStep(const DeviceContext& context, std::span<const double> energies,
                                     float step, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

  // Codes the values of escapes, whose samples are numbers of the samples that were sent last.
  Status RunEscapes(const DeviceContext& context, CodingPass pass,
                    std::span<DitherEscape> escapes) const;
  void KeepEscapes(std::vector<DitherEscape> escapes);

 private:
  Result<float> ChooseStep(const DeviceContext& context, std::span<const double> energies) const;
  Result<ChannelOffsets> ChooseOffsets(const DeviceContext& context,
                                       std::span<const double> energies) const;
  Status SendKinds(const DeviceContext& context, std::span<const DitherKind> kinds) const;
  DitherJob JobFor(const DeviceContext& context, CodingPass pass, std::size_t samples) const;

  const DitheredCodec& codec_;
  // Of the section that is on the device.
  float step_ = 0;
  std::vector<DitherEscape> escapes_;  // by sample of the section and position
};

// The cells of a section that is being encoded.
class DeviceCells final : public DitherCells {
 public:
  DeviceCells(const DeviceContext& context, DeviceDitheredSection* section)
      : context_(context), section_(*section) {}

  Status Begin(std::span<std::uint8_t> all) override {
    context_.queue->ToHost(all.data(), context_.scratch->Get(kCodesSlot), all.size());
    return context_.queue->Wait();
  }
  void Make(const TokenPart& part, std::uint8_t* cells) override {
    if (!HasEscape({cells, part.count}, part.wide)) return;
    const std::uint8_t mask = part.wide ? 0xff : kNarrowSymbolMask;
    for (std::size_t i = 0; i < part.count; ++i) {
      if ((cells[i] & mask) != 0) continue;
      escapes_.push_back(StagedSymbols::EscapeAt(part, i, context_.shape, 0));
    }
  }
  Result<std::vector<std::int32_t>> FarCodes() override {
    SHOAL_RETURN_IF_ERROR(section_.RunEscapes(context_, CodingPass::kEncode, escapes_));
    std::vector<std::int32_t> codes;
    codes.reserve(escapes_.size());
    for (const DitherEscape& escape : escapes_) codes.push_back(escape.code);
    section_.KeepEscapes(std::move(escapes_));
    return codes;
  }

 private:
  const DeviceContext& context_;
  DeviceDitheredSection& section_;
  std::vector<DitherEscape> escapes_;
};

// ---- steps -----------------------------------------------------------------------------------

DitherJob DeviceDitheredSection::JobFor(const DeviceContext& context, CodingPass pass,
                                        std::size_t samples) const {
  const DeviceScratch& scratch = *context.scratch;
  DitherJob job;
  job.pass = pass;
  const auto words = MessageKeyWords(context.key);
  std::copy(words.begin(), words.end(), job.key);
  job.drawn = codec_.dithered();
  job.step = step_;
  job.inverse_step = step_ == 0 ? 0 : 1.0F / step_;
  job.hidden = context.shape.hidden;
  job.tokens = context.shape.tokens;
  job.count = static_cast<std::uint32_t>(samples);
  job.samples = reinterpret_cast<const DeviceSample*>(scratch.Get(kSamplesSlot));
  job.kinds = reinterpret_cast<const DitherKind*>(scratch.Get(kScalesSlot));
  job.cells = reinterpret_cast<std::uint8_t*>(scratch.Get(kCodesSlot));
  return job;
}

Result<float> DeviceDitheredSection::ChooseStep(const DeviceContext& context,
                                                std::span<const double> energies) const {
  const std::uint32_t hidden = context.shape.hidden;
  if (!codec_.wants_rows()) return codec_.StepFor(energies, {}, hidden, context.key);
  const std::size_t width = SteeringValues(hidden);
  std::vector<LookRow> look_rows;
  for (const std::size_t t : SteeringTokens(energies.size())) {
    look_rows.push_back(LookRowOf(t, context.shape, 0));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::vector<float> values,
                         LookAtTokens(context, LookPass::kRows, width, look_rows));
  std::vector<const float*> rows;
  for (std::size_t i = 0; i < look_rows.size(); ++i) rows.push_back(values.data() + i * width);
  return codec_.StepFor(energies, rows, hidden, context.key);
}

Result<ChannelOffsets> DeviceDitheredSection::ChooseOffsets(
    const DeviceContext& context, std::span<const double> energies) const {
  std::vector<LookRow> look_rows;
  for (const LookedToken& looked : TokensToLookAt(energies, context.shape.hidden)) {
    look_rows.push_back(LookRowOf(looked.token, context.shape, looked.scale));
  }
  if (look_rows.empty()) return ChannelOffsets();
  SHOAL_ASSIGN_OR_RETURN(
      const std::vector<float> squares,
      LookAtTokens(context, LookPass::kSquares, context.shape.hidden, look_rows));
  return FitChannels(squares, look_rows.size(), energies.size());
}

Status DeviceDitheredSection::SendKinds(const DeviceContext& context,
                                        std::span<const DitherKind> kinds) const {
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(kScalesSlot, kinds.size_bytes()));
  context.queue->ToDevice(at, kinds.data(), kinds.size_bytes());
  return context.queue->Wait();
}

void DeviceDitheredSection::KeepEscapes(std::vector<DitherEscape> escapes) {
  escapes_ = std::move(escapes);
  std::sort(escapes_.begin(), escapes_.end(), [](const DitherEscape& a, const DitherEscape& b) {
    return std::tie(a.sample, a.position) < std::tie(b.sample, b.position);
  });
}

Status DeviceDitheredSection::RunEscapes(const DeviceContext& context, CodingPass pass,
                                         std::span<DitherEscape> escapes) const {
  constexpr std::size_t kAtOnce = std::size_t{1} << 24;
  for (std::size_t first = 0; first < escapes.size(); first += kAtOnce) {
    const auto part = escapes.subspan(first, std::min(kAtOnce, escapes.size() - first));
    SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                           context.scratch->Reserve(kEscapesSlot, part.size_bytes()));
    context.queue->ToDevice(at, part.data(), part.size_bytes());
    EscapeJob job;
    job.dither = JobFor(context, pass, 0);
    job.escapes = static_cast<std::uint32_t>(part.size());
    job.list = reinterpret_cast<DitherEscape*>(at);
    context.queue->Run(job);
    if (pass == CodingPass::kEncode) context.queue->ToHost(part.data(), at, part.size_bytes());
    SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  }
  return Status::Ok();
}

// ---- sections --------------------------------------------------------------------------------

Result<std::size_t> DeviceDitheredSection::Encode(const DeviceContext& context,
                                                  std::span<DeviceSample> samples, bool delta,
                                                  std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= codec_.EncodedBytesMax(context.shape, samples.size()));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> followed, FollowedEnergies(context, codec_));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, TokenEnergies(context));
  SHOAL_RETURN_IF_ERROR(codec_.CheckEnergies(energies, context.shape));
  SHOAL_ASSIGN_OR_RETURN(
      const float step, followed.empty() ? ChooseStep(context, energies)
                                         : codec_.StepOfChanges(energies, followed,
                                                                context.shape.hidden, context.key));
  return EncodeWithStep(context, energies, step, out);
}

Result<std::size_t> DeviceDitheredSection::EncodeWithStep(const DeviceContext& context,
                                                          std::span<const double> energies,
                                                          float step, std::span<std::byte> out) {
  const SampleShape shape = context.shape;
  step_ = step;
  escapes_.clear();
  codec_.WriteStart(shape, context.samples, step_, out.data());
  const std::vector<std::uint8_t> classes = codec_.ClassesFor(energies, shape.hidden, step_);
  std::vector<DitherKind> kinds(classes.size());
  std::transform(classes.begin(), classes.end(), kinds.begin(), KindOf);
  SHOAL_RETURN_IF_ERROR(SendKinds(context, kinds));
  const std::size_t cell_bytes = context.samples * shape.values();
  SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(kCodesSlot, cell_bytes).status());
  if (step_ == 0) return DitheredCodec::kSectionAt;
  SHOAL_ASSIGN_OR_RETURN(const ChannelOffsets offsets, ChooseOffsets(context, energies));
  context.queue->Run(JobFor(context, CodingPass::kEncode, context.samples));
  DeviceCells cells(context, this);
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         WriteDitheredSection({shape, classes, offsets}, &cells,
                                              out.subspan(DitheredCodec::kSectionAt)));
  return DitheredCodec::kSectionAt + bytes;
}

Status DeviceDitheredSection::Stage(const DeviceContext& context,
                                    std::span<const std::byte> section) {
  const SampleShape shape = context.shape;
  SHOAL_ASSIGN_OR_RETURN(step_, codec_.ReadStart(section, shape, context.samples));
  StagedSymbols symbols(shape, context.samples);
  if (step_ != 0) {
    SHOAL_RETURN_IF_ERROR(ReadDitheredSection(
        section.subspan(DitheredCodec::kSectionAt), shape, context.samples,
        PartDither(context.key, codec_.dithered()), step_, codec_.spec(), &symbols));
  }
  KeepEscapes(std::move(symbols.escapes()));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const cells,
                         context.scratch->Reserve(kCodesSlot, symbols.cells().size()));
  if (step_ != 0) {
    context.queue->ToDevice(cells, symbols.cells().data(), symbols.cells().size());
  }
  return SendKinds(context, symbols.kinds());
}

Status DeviceDitheredSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                     bool delta) {
  SHOAL_CHECK(!delta);
  std::vector<DitherEscape> wanted;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    auto at = std::lower_bound(
        escapes_.begin(), escapes_.end(), samples[i].index,
        [](const DitherEscape& escape, std::uint32_t index) { return escape.sample < index; });
    for (; at != escapes_.end() && at->sample == samples[i].index; ++at) {
      wanted.push_back({static_cast<std::uint32_t>(i), at->position, at->code});
    }
  }
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, samples.size()));
  SHOAL_RETURN_IF_ERROR(RunEscapes(context, CodingPass::kDecode, wanted));
  return context.queue->Wait();
}

}  // namespace

Result<std::vector<double>> FollowedEnergies(const DeviceContext& context,
                                             const DitheredCodec& codec) {
  if (!codec.follows_values() || context.followed.empty()) return std::vector<double>();
  SHOAL_RETURN_IF_ERROR(SendFollowed(context));
  SHOAL_ASSIGN_OR_RETURN(std::vector<double> energies, TokenEnergies(context));
  SHOAL_RETURN_IF_ERROR(codec.CheckEnergies(energies, context.shape));
  return energies;
}

std::unique_ptr<DeviceStepSection> NewDeviceStepSection(const DitheredCodec& codec) {
  return std::make_unique<DeviceDitheredSection>(codec);
}

std::unique_ptr<DeviceSection> NewDeviceDitheredSection(const DitheredCodec& codec) {
  return NewDeviceStepSection(codec);
}

}  // namespace shoal::compression
