#include "compression/device_codec.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/aqsgd_header.h"
#include "compression/codec_parts.h"
#include "compression/device_queue.h"
#include "compression/device_section.h"

namespace shoal::compression {
namespace {

// Positions in a sample are 32-bit numbers on the device.
constexpr std::size_t kDeviceValuesMax = (std::size_t{1} << 31) - 8;
constexpr std::string_view kValuesSlot = "values";

Status CheckShape(SampleShape shape, std::size_t samples, std::string_view spec) {
  const std::vector<std::size_t> sizes(samples, shape.values());
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, std::span<const std::size_t>(sizes), false, spec));
  if (shape.values() <= kDeviceValuesMax) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": a sample of " +
                         std::to_string(shape.values()) + " values; a device takes " +
                         std::to_string(kDeviceValuesMax) + " at most, use the CPU");
}

Status CheckImagePlace(const std::byte* image, std::size_t sample, std::string_view spec) {
  if (image != nullptr && reinterpret_cast<std::uintptr_t>(image) % 16 == 0) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": the m image of sample " +
                         std::to_string(sample) + (image == nullptr ? " is missing" : "") +
                         (image == nullptr ? "" : " is not aligned to 16 bytes") +
                         "; allocate it with cudaMalloc");
}

// The sections that a codec's messages can have.
struct Sections {
  std::unique_ptr<DeviceSection> plain;                     // without m
  std::unique_ptr<DeviceSection> delta, wide, first, full;  // with m
};

class SectionsDeviceCodec : public DeviceCodec {
 public:
  SectionsDeviceCodec(std::shared_ptr<const MessageCodec> host, CodecParts parts, Sections sections,
                      std::unique_ptr<DeviceQueue> queue)
      : host_(std::move(host)),
        parts_(std::move(parts)),
        sections_(std::move(sections)),
        queue_(std::move(queue)),
        scratch_(queue_.get()) {}

  const std::string& spec() const override { return host_->spec(); }
  bool keeps_m() const override { return host_->keeps_m(); }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return host_->EncodedBytesMax(shape, samples);
  }
  std::size_t MImageBytes(SampleShape shape) const override { return host_->MImageBytes(shape); }

  Result<std::size_t> Encode(std::span<const DeviceSampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode mode, std::span<std::byte> out,
                             std::span<std::byte* const> next_m, void* stream) override;
  Status Decode(std::span<const std::byte> payload, std::span<const DeviceSampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<std::byte* const> next_m,
                void* stream) override;

 private:
  DeviceContext ContextFor(SampleShape shape, const RandomKey& key, std::size_t samples) {
    return {queue_.get(), &scratch_, shape, key, samples, spec()};
  }
  DeviceSection& Deltas(DeltaMode mode) {
    return mode == DeltaMode::kWideDelta ? *sections_.wide : *sections_.delta;
  }
  DeviceSection& Firsts(DeltaMode mode) {
    return mode == DeltaMode::kFull ? *sections_.full : *sections_.first;
  }
  Result<std::size_t> EncodeFirsts(const DeviceContext& context, DeviceSection* section,
                                   std::span<DeviceSample> samples, std::span<std::byte> out);
  Status MakeImages(const DeviceContext& context, std::span<DeviceSample> samples);
  Status DecodeMessage(std::span<const std::byte> payload, std::vector<DeviceSample>* deltas,
                       std::vector<DeviceSample>* firsts, std::size_t delta_count,
                       std::size_t first_count, const DeviceContext& context);

  const std::shared_ptr<const MessageCodec> host_;
  const CodecParts parts_;
  Sections sections_;
  const std::unique_ptr<DeviceQueue> queue_;
  DeviceScratch scratch_;
};

// Images of the samples' values, which become what the images stand for.
Status SectionsDeviceCodec::MakeImages(const DeviceContext& context,
                                       std::span<DeviceSample> samples) {
  std::vector<Extremes> extremes(samples.size());
  for (bool again = true; again;) {  // exponent 0 nearly always fits
    SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
    queue_->Run(JobOf<ImageJob>(context, samples.size()));
    FetchExtremes(context, extremes);
    SHOAL_RETURN_IF_ERROR(queue_->Wait());
    again = false;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(CheckMagnitude(extremes[i].sum, kDeltaMax, context.spec));
      SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(extremes[i].sum, context.spec));
      again |= exponent != samples[i].exponent;
      samples[i].exponent = exponent;
    }
  }
  auto load = JobOf<ImageJob>(context, samples.size());
  load.pass = ImagePass::kLoad;
  queue_->Run(load);
  return queue_->Wait();
}

// One after the other: the decoded values of one sample are all the memory that this takes.
Result<std::size_t> SectionsDeviceCodec::EncodeFirsts(const DeviceContext& context,
                                                      DeviceSection* section,
                                                      std::span<DeviceSample> samples,
                                                      std::span<std::byte> out) {
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section->Encode(context, samples, false, out));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const values,
                         scratch_.Reserve(kValuesSlot, context.shape.values() * sizeof(float)));
  for (DeviceSample& sample : samples) {
    sample.values = reinterpret_cast<float*>(values);
    SHOAL_RETURN_IF_ERROR(section->Decode(context, {&sample, 1}, false));
    SHOAL_RETURN_IF_ERROR(MakeImages(context, {&sample, 1}));
  }
  return bytes;
}

Result<std::size_t> SectionsDeviceCodec::Encode(std::span<const DeviceSampleToEncode> samples,
                                                SampleShape shape, const RandomKey& key,
                                                DeltaMode mode, std::span<std::byte> out,
                                                std::span<std::byte* const> next_m, void* stream) {
  SHOAL_RETURN_IF_ERROR(CheckShape(shape, samples.size(), spec()));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_CHECK(!keeps_m() || next_m.size() == samples.size());
  queue_->Use(stream);
  std::vector<DeviceSample> deltas, firsts;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_CHECK(samples[i].values != nullptr);
    DeviceSample sample;
    sample.x = samples[i].values;
    const bool delta = samples[i].m != nullptr && mode != DeltaMode::kFull;
    SHOAL_CHECK(keeps_m() || samples[i].m == nullptr);
    if (keeps_m()) {
      sample.next_m = next_m[i];
      SHOAL_RETURN_IF_ERROR(CheckImagePlace(sample.next_m, i, spec()));
    }
    if (delta) {
      sample.m = samples[i].m;
      SHOAL_CHECK(sample.m != sample.next_m);
      SHOAL_RETURN_IF_ERROR(CheckImagePlace(sample.m, i, spec()));
    }
    std::vector<DeviceSample>& group = delta ? deltas : firsts;
    sample.index = static_cast<std::uint32_t>(group.size());
    group.push_back(sample);
  }
  if (!keeps_m()) {
    return sections_.plain->Encode(ContextFor(shape, key, firsts.size()), firsts, false, out);
  }
  AqsgdHeader header{mode, deltas.size(), 0};
  if (!deltas.empty()) {
    SHOAL_ASSIGN_OR_RETURN(header.delta_bytes,
                           Deltas(mode).Encode(ContextFor(shape, key, deltas.size()), deltas, true,
                                               out.subspan(kMessageHeaderBytes)));
  }
  std::size_t written = kMessageHeaderBytes + header.delta_bytes;
  if (!firsts.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           EncodeFirsts(ContextFor(shape, key, firsts.size()), &Firsts(mode),
                                        firsts, out.subspan(written)));
    written += bytes;
  }
  WriteAqsgdHeader(header, parts_.aqsgd->m.bits(), out.data());
  return written;
}

Status SectionsDeviceCodec::DecodeMessage(std::span<const std::byte> payload,
                                          std::vector<DeviceSample>* deltas,
                                          std::vector<DeviceSample>* firsts,
                                          std::size_t delta_count, std::size_t first_count,
                                          const DeviceContext& context) {
  SHOAL_ASSIGN_OR_RETURN(const AqsgdHeader header,
                         ReadAqsgdHeader(payload, parts_.aqsgd->m.bits(), delta_count, spec()));
  const auto rest = payload.subspan(kMessageHeaderBytes + header.delta_bytes);
  DeviceContext part = context;
  if (delta_count > 0) {
    DeviceSection& section = Deltas(header.mode);
    part.samples = delta_count;
    Status decoded = section.Stage(part, payload.subspan(kMessageHeaderBytes, header.delta_bytes));
    if (decoded.ok()) decoded = section.Decode(part, *deltas, true);
    if (!decoded.ok()) return decoded.WithContext("changes of codec " + spec());
  }
  if (first_count == 0) {
    if (rest.empty()) return Status::Ok();
    return InvalidArgument("codec " + spec() + ": " + std::to_string(rest.size()) +
                           " bytes too many behind the changes; drop the message and ask for it "
                           "again");
  }
  DeviceSection& section = Firsts(header.mode);
  part.samples = first_count;
  Status decoded = section.Stage(part, rest);
  if (decoded.ok()) decoded = section.Decode(part, *firsts, false);
  if (!decoded.ok()) return decoded.WithContext("first visits of codec " + spec());
  return MakeImages(part, *firsts);
}

Status SectionsDeviceCodec::Decode(std::span<const std::byte> payload,
                                   std::span<const DeviceSampleToDecode> samples, SampleShape shape,
                                   const RandomKey& key, std::span<std::byte* const> next_m,
                                   void* stream) {
  SHOAL_RETURN_IF_ERROR(CheckShape(shape, samples.size(), spec()));
  SHOAL_CHECK(!keeps_m() || next_m.size() == samples.size());
  queue_->Use(stream);
  std::vector<DeviceSample> deltas, firsts;  // the wanted ones
  std::size_t delta_count = 0, first_count = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_CHECK(keeps_m() || !samples[i].delta);
    DeviceSample sample;
    sample.index = static_cast<std::uint32_t>(samples[i].delta ? delta_count++ : first_count++);
    if (samples[i].values == nullptr) continue;
    sample.values = samples[i].values;
    if (keeps_m()) {
      sample.next_m = next_m[i];
      SHOAL_RETURN_IF_ERROR(CheckImagePlace(sample.next_m, i, spec()));
    }
    if (samples[i].delta) {
      sample.m = samples[i].m;
      SHOAL_CHECK(sample.m != sample.next_m);
      SHOAL_RETURN_IF_ERROR(CheckImagePlace(sample.m, i, spec()));
    }
    (samples[i].delta ? deltas : firsts).push_back(sample);
  }
  const DeviceContext context = ContextFor(shape, key, samples.size());
  if (keeps_m()) {
    return DecodeMessage(payload, &deltas, &firsts, delta_count, first_count, context);
  }
  SHOAL_RETURN_IF_ERROR(sections_.plain->Stage(context, payload));
  return sections_.plain->Decode(context, firsts, false);
}

Result<Sections> SectionsOf(const CodecParts& parts) {
  Sections sections;
  if (!parts.aqsgd) {
    SHOAL_ASSIGN_OR_RETURN(sections.plain, DeviceSection::Of(*parts.plain));
    return sections;
  }
  const AqsgdParts& aqsgd = *parts.aqsgd;
  if (aqsgd.m.bits() != 16) {
    return Unimplemented("codec " + aqsgd.spec + " has no form on a device, where m has 16 bits; " +
                         "leave out m=, or use this one on the CPU");
  }
  SHOAL_ASSIGN_OR_RETURN(sections.delta, DeviceSection::Of(*aqsgd.delta));
  SHOAL_ASSIGN_OR_RETURN(sections.wide, DeviceSection::Of(*aqsgd.wide));
  SHOAL_ASSIGN_OR_RETURN(sections.first, DeviceSection::Of(*aqsgd.first_visit));
  SHOAL_ASSIGN_OR_RETURN(sections.full, DeviceSection::Of(*aqsgd.full));
  if (sections.delta->fuses_delta()) return sections;
  return Unimplemented("codec " + aqsgd.spec +
                       " has no form on a device, where changes are bucket codes; use this one on "
                       "the CPU");
}

}  // namespace

Result<std::unique_ptr<DeviceCodec>> NewDeviceCodec(std::string_view spec, std::uint32_t hidden,
                                                    std::unique_ptr<DeviceQueue> queue) {
  SHOAL_ASSIGN_OR_RETURN(auto host, MakeCodec(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(CodecParts parts, ParseCodec(spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(Sections sections, SectionsOf(parts));
  return std::unique_ptr<DeviceCodec>(std::make_unique<SectionsDeviceCodec>(
      std::move(host), std::move(parts), std::move(sections), std::move(queue)));
}

Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(std::string_view spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(auto queue, NewCudaQueue());
  return NewDeviceCodec(spec, hidden, std::move(queue));
}

}  // namespace shoal::compression
