#include "compression/device/device_codec.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs/aqsgd/aqsgd_codec.h"
#include "compression/codecs/aqsgd/aqsgd_header.h"
#include "compression/codecs/aqsgd/delta_section.h"
#include "compression/codecs/codec_registry.h"
#include "compression/codecs/coding_sample.h"
#include "compression/device/device_images.h"
#include "compression/device/device_queue.h"
#include "compression/device/device_registry.h"
#include "compression/device/device_section.h"
#include "compression/device/device_stats.h"

namespace shoal::compression {
namespace {

// Positions in a sample are 32-bit numbers on the device.
constexpr std::size_t kDeviceValuesMax = (std::size_t{1} << 31) - 8;
constexpr std::string_view kValuesSlot = "values";
constexpr std::string_view kDeltasSlot = "deltas";

Status CheckShape(SampleShape shape, std::size_t samples, std::string_view spec) {
  const std::vector<std::size_t> sizes(samples, shape.values());
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, std::span<const std::size_t>(sizes), false, spec));
  if (shape.values() <= kDeviceValuesMax) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": a sample of " +
                         std::to_string(shape.values()) + " values; a device takes " +
                         std::to_string(kDeviceValuesMax) + " at most, use the CPU");
}

Status CheckImageAddress(const std::byte* image, std::size_t sample, std::string_view spec) {
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
        images_(parts_.aqsgd ? parts_.aqsgd->m.bits() : 16),
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
                             std::span<std::byte* const> next_m, CodingStats* stats,
                             void* stream) override;
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
  // The bucket format of the changes if they are coded against m in one pass, else null.
  const BucketFormat* OnePass(DeltaMode mode) const {
    if (!keeps_m() || parts_.aqsgd->one_pass == nullptr) return nullptr;
    return mode == DeltaMode::kWideDelta ? &parts_.aqsgd->wide->format()
                                         : &parts_.aqsgd->one_pass->format();
  }
  Result<std::size_t> EncodeWhole(const DeviceContext& context, DeviceSection* section,
                                  std::span<DeviceSample> samples, std::span<std::byte> out,
                                  CodingStats* stats);
  Result<std::size_t> EncodeDeltas(const DeviceContext& context, DeltaMode mode,
                                   std::span<DeviceSample> samples, std::span<std::byte> out,
                                   CodingStats* stats);
  Status DecodeDeltas(const DeviceContext& context, DeltaMode mode,
                      std::span<const std::byte> section, std::span<DeviceSample> samples);
  Status GroupToEncode(std::span<const DeviceSampleToEncode> samples,
                       std::span<std::byte* const> next_m, DeltaMode mode, bool counted,
                       std::vector<DeviceSample>* deltas, std::vector<DeviceSample>* firsts) const;
  Status DecodeMessage(std::span<const std::byte> payload, std::vector<DeviceSample>* deltas,
                       std::vector<DeviceSample>* firsts, std::size_t delta_count,
                       std::size_t first_count, const DeviceContext& context);

  const std::shared_ptr<const MessageCodec> host_;
  const CodecParts parts_;
  const DeviceImages images_;
  Sections sections_;
  const std::unique_ptr<DeviceQueue> queue_;
  DeviceScratch scratch_;
};

// Samples that are coded themselves. Their decoded values are needed for m and for statistics: one
// sample after the other, so that those of one are all the memory that this takes.
Result<std::size_t> SectionsDeviceCodec::EncodeWhole(const DeviceContext& context,
                                                     DeviceSection* section,
                                                     std::span<DeviceSample> samples,
                                                     std::span<std::byte> out, CodingStats* stats) {
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section->Encode(context, samples, false, out));
  if (!keeps_m() && stats == nullptr) return bytes;
  SHOAL_ASSIGN_OR_RETURN(std::byte* const values,
                         scratch_.Reserve(kValuesSlot, context.shape.values() * sizeof(float)));
  for (DeviceSample& sample : samples) {
    sample.values = reinterpret_cast<float*>(values);
    SHOAL_RETURN_IF_ERROR(section->Decode(context, {&sample, 1}, false));
    if (keeps_m()) SHOAL_RETURN_IF_ERROR(images_.Make(context, {&sample, 1}));
    if (stats == nullptr) continue;
    if (sample.m != nullptr) SHOAL_RETURN_IF_ERROR(images_.Check(context, {&sample, 1}));
    SHOAL_RETURN_IF_ERROR(CountOnDevice(context, images_.bits(), kStatsBlock, {&sample, 1}, stats));
  }
  return bytes;
}

Result<std::size_t> SectionsDeviceCodec::EncodeDeltas(const DeviceContext& context, DeltaMode mode,
                                                      std::span<DeviceSample> samples,
                                                      std::span<std::byte> out,
                                                      CodingStats* stats) {
  const std::size_t n = context.shape.values();
  DeviceSection& section = Deltas(mode);
  if (const BucketFormat* format = OnePass(mode); format != nullptr) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section.Encode(context, samples, true, out));
    if (stats == nullptr) return bytes;
    SHOAL_RETURN_IF_ERROR(
        CountOnDevice(context, images_.bits(), format->code.BlockValues(n), samples, stats));
    return bytes;
  }
  SHOAL_ASSIGN_OR_RETURN(std::byte* const deltas,
                         scratch_.Reserve(kDeltasSlot, samples.size() * n * sizeof(float)));
  std::vector<DeviceSample> coded;  // the changes take the place of x
  for (DeviceSample& sample : samples) {
    sample.values = reinterpret_cast<float*>(deltas) + sample.index * n;
    DeviceSample change = sample;
    change.x = sample.values;
    change.m = change.next_m = nullptr;
    coded.push_back(change);
  }
  SHOAL_RETURN_IF_ERROR(images_.Subtract(context, samples));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section.Encode(context, coded, false, out));
  SHOAL_RETURN_IF_ERROR(section.Decode(context, coded, false));
  SHOAL_RETURN_IF_ERROR(images_.Advance(context, samples, stats != nullptr));
  if (stats == nullptr) return bytes;
  SHOAL_RETURN_IF_ERROR(CountOnDevice(context, images_.bits(), kStatsBlock, samples, stats));
  return bytes;
}

// The samples of a message by the section that carries them. m of samples that are sent in full is
// looked at for statistics only.
Status SectionsDeviceCodec::GroupToEncode(std::span<const DeviceSampleToEncode> samples,
                                          std::span<std::byte* const> next_m, DeltaMode mode,
                                          bool counted, std::vector<DeviceSample>* deltas,
                                          std::vector<DeviceSample>* firsts) const {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_CHECK(samples[i].values != nullptr);
    DeviceSample sample;
    sample.x = samples[i].values;
    const bool delta = samples[i].m != nullptr && mode != DeltaMode::kFull;
    SHOAL_CHECK(keeps_m() || samples[i].m == nullptr);
    if (keeps_m()) {
      sample.next_m = next_m[i];
      SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.next_m, i, spec()));
    }
    if (samples[i].m != nullptr && (delta || counted)) {
      sample.m = samples[i].m;
      SHOAL_CHECK(sample.m != sample.next_m);
      SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.m, i, spec()));
    }
    std::vector<DeviceSample>* const group = delta ? deltas : firsts;
    sample.index = static_cast<std::uint32_t>(group->size());
    group->push_back(sample);
  }
  return Status::Ok();
}

Result<std::size_t> SectionsDeviceCodec::Encode(std::span<const DeviceSampleToEncode> samples,
                                                SampleShape shape, const RandomKey& key,
                                                DeltaMode mode, std::span<std::byte> out,
                                                std::span<std::byte* const> next_m,
                                                CodingStats* stats, void* stream) {
  SHOAL_RETURN_IF_ERROR(CheckShape(shape, samples.size(), spec()));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_CHECK(!keeps_m() || next_m.size() == samples.size());
  queue_->Use(stream);
  std::vector<DeviceSample> deltas, firsts;
  SHOAL_RETURN_IF_ERROR(GroupToEncode(samples, next_m, mode, stats != nullptr, &deltas, &firsts));
  CodingStats seen;
  CodingStats* const counted = stats == nullptr ? nullptr : &seen;
  std::size_t written = 0;
  AqsgdHeader header{mode, deltas.size(), 0};
  if (!deltas.empty()) {
    SHOAL_ASSIGN_OR_RETURN(header.delta_bytes,
                           EncodeDeltas(ContextFor(shape, key, deltas.size()), mode, deltas,
                                        out.subspan(kMessageHeaderBytes), counted));
  }
  if (keeps_m()) written = kMessageHeaderBytes + header.delta_bytes;
  if (!firsts.empty()) {
    DeviceSection* const section = keeps_m() ? &Firsts(mode) : sections_.plain.get();
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           EncodeWhole(ContextFor(shape, key, firsts.size()), section, firsts,
                                       out.subspan(written), counted));
    written += bytes;
  }
  if (keeps_m()) WriteAqsgdHeader(header, images_.bits(), out.data());
  if (stats != nullptr) stats->Add(seen);
  return written;
}

Status SectionsDeviceCodec::DecodeDeltas(const DeviceContext& context, DeltaMode mode,
                                         std::span<const std::byte> section,
                                         std::span<DeviceSample> samples) {
  DeviceSection& coded = Deltas(mode);
  SHOAL_RETURN_IF_ERROR(coded.Stage(context, section));
  if (OnePass(mode) != nullptr) return coded.Decode(context, samples, true);
  SHOAL_RETURN_IF_ERROR(coded.Decode(context, samples, false));
  return images_.Advance(context, samples, true);
}

Status SectionsDeviceCodec::DecodeMessage(std::span<const std::byte> payload,
                                          std::vector<DeviceSample>* deltas,
                                          std::vector<DeviceSample>* firsts,
                                          std::size_t delta_count, std::size_t first_count,
                                          const DeviceContext& context) {
  SHOAL_ASSIGN_OR_RETURN(const AqsgdHeader header,
                         ReadAqsgdHeader(payload, images_.bits(), delta_count, spec()));
  const auto rest = payload.subspan(kMessageHeaderBytes + header.delta_bytes);
  DeviceContext part = context;
  if (delta_count > 0) {
    part.samples = delta_count;
    const Status decoded = DecodeDeltas(
        part, header.mode, payload.subspan(kMessageHeaderBytes, header.delta_bytes), *deltas);
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
  return images_.Make(part, *firsts);
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
      SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.next_m, i, spec()));
    }
    if (samples[i].delta) {
      sample.m = samples[i].m;
      SHOAL_CHECK(sample.m != sample.next_m);
      SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.m, i, spec()));
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
  if (parts.feedback) {
    return Unimplemented("codec " + parts.plain->spec() +
                         ",feedback=on has no form on a device; use this one on the CPU");
  }
  if (parts.low_rank) {
    return Unimplemented("codec lowrank has no form on a device; use it on the CPU");
  }
  if (!parts.aqsgd) {
    SHOAL_ASSIGN_OR_RETURN(sections.plain, NewDeviceSection(*parts.plain));
    return sections;
  }
  const AqsgdParts& aqsgd = *parts.aqsgd;
  SHOAL_ASSIGN_OR_RETURN(sections.delta, NewDeviceSection(*aqsgd.delta));
  SHOAL_ASSIGN_OR_RETURN(sections.wide, NewDeviceSection(*aqsgd.wide));
  SHOAL_ASSIGN_OR_RETURN(sections.first, NewDeviceSection(*aqsgd.first_visit));
  SHOAL_ASSIGN_OR_RETURN(sections.full, NewDeviceSection(*aqsgd.full));
  SHOAL_CHECK(aqsgd.one_pass == nullptr || sections.delta->fuses_delta());
  return sections;
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
