#include "compression/device/codecs/device_aqsgd_codec.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs/aqsgd/aqsgd_codec.h"
#include "compression/codecs/aqsgd/aqsgd_header.h"
#include "compression/codecs/aqsgd/delta_section.h"
#include "compression/codecs/coding_sample.h"
#include "compression/device/device_coding.h"
#include "compression/device/device_images.h"
#include "compression/device/device_queue.h"
#include "compression/device/device_stats.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kDeltasSlot = "deltas";

// As in AqsgdParts.
struct Sections {
  std::unique_ptr<DeviceSection> delta, wide, first, full;
};

class DeviceAqsgdCodec final : public DeviceCodec {
 public:
  DeviceAqsgdCodec(AqsgdParts parts, Sections sections, std::unique_ptr<DeviceQueue> queue)
      : host_(NewAqsgdCodec(parts)),
        parts_(std::move(parts)),
        images_(parts_.m.bits()),
        sections_(std::move(sections)),
        queue_(std::move(queue)),
        scratch_(queue_.get()) {}

  const std::string& spec() const override { return host_->spec(); }
  bool keeps_m() const override { return true; }
  double device_ms() const override { return queue_->busy_ms(); }
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
  // Buckets under channel scales, which the CPU codes in one pass, take whole samples here.
  bool Fuses(DeltaMode mode) const { return parts_.OnePass(mode) != nullptr && !parts_.scaled; }
  DeviceSection& Deltas(DeltaMode mode) {
    return mode == DeltaMode::kWideDelta ? *sections_.wide : *sections_.delta;
  }
  DeviceSection& Firsts(DeltaMode mode) {
    return mode == DeltaMode::kFull ? *sections_.full : *sections_.first;
  }
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

  const MessagePointer host_;
  const AqsgdParts parts_;
  const DeviceImages images_;
  Sections sections_;
  const std::unique_ptr<DeviceQueue> queue_;
  DeviceScratch scratch_;
};

Result<std::size_t> DeviceAqsgdCodec::EncodeDeltas(const DeviceContext& context, DeltaMode mode,
                                                   std::span<DeviceSample> samples,
                                                   std::span<std::byte> out, CodingStats* stats) {
  const std::size_t n = context.shape.values();
  DeviceSection& section = Deltas(mode);
  const BucketFormat* const format = parts_.OnePass(mode);
  const std::size_t block = format == nullptr ? kStatsBlock : format->code.BlockValues(n);
  if (Fuses(mode)) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section.Encode(context, samples, true, out));
    if (stats == nullptr) return bytes;
    SHOAL_RETURN_IF_ERROR(CountOnDevice(context, images_.bits(), block, samples, stats));
    return bytes;
  }
  SHOAL_ASSIGN_OR_RETURN(std::byte* const deltas,
                         scratch_.Reserve(kDeltasSlot, samples.size() * n * sizeof(float)));
  std::vector<DeviceSample> coded;  // the changes take the place of x
  std::vector<const float*> followed;
  for (DeviceSample& sample : samples) {
    followed.push_back(sample.x);
    sample.values = reinterpret_cast<float*>(deltas) + sample.index * n;
    DeviceSample change = sample;
    change.x = sample.values;
    change.m = change.next_m = nullptr;
    coded.push_back(change);
  }
  SHOAL_RETURN_IF_ERROR(images_.Subtract(context, samples));
  DeviceContext of_changes = context;
  if (format != nullptr) of_changes.magnitude_most = kDeltaMax;
  of_changes.followed = followed;
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section.Encode(of_changes, coded, false, out));
  SHOAL_RETURN_IF_ERROR(section.Decode(context, coded, false));
  SHOAL_RETURN_IF_ERROR(images_.Advance(context, samples, stats != nullptr));
  if (stats == nullptr) return bytes;
  SHOAL_RETURN_IF_ERROR(CountOnDevice(context, images_.bits(), block, samples, stats));
  return bytes;
}

// The samples of a message by the section that carries them. m of samples that are sent in full is
// looked at for statistics only.
Status DeviceAqsgdCodec::GroupToEncode(std::span<const DeviceSampleToEncode> samples,
                                       std::span<std::byte* const> next_m, DeltaMode mode,
                                       bool counted, std::vector<DeviceSample>* deltas,
                                       std::vector<DeviceSample>* firsts) const {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_CHECK(samples[i].values != nullptr);
    DeviceSample sample;
    sample.x = samples[i].values;
    const bool delta = samples[i].m != nullptr && mode != DeltaMode::kFull;
    sample.next_m = next_m[i];
    SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.next_m, i, spec()));
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

Result<std::size_t> DeviceAqsgdCodec::Encode(std::span<const DeviceSampleToEncode> samples,
                                             SampleShape shape, const RandomKey& key,
                                             DeltaMode mode, std::span<std::byte> out,
                                             std::span<std::byte* const> next_m, CodingStats* stats,
                                             void* stream) {
  SHOAL_RETURN_IF_ERROR(CheckDeviceShape(shape, samples.size(), spec()));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_CHECK(next_m.size() == samples.size());
  queue_->Use(stream);
  std::vector<DeviceSample> deltas, firsts;
  SHOAL_RETURN_IF_ERROR(GroupToEncode(samples, next_m, mode, stats != nullptr, &deltas, &firsts));
  CodingStats seen;
  CodingStats* const counted = stats == nullptr ? nullptr : &seen;
  AqsgdHeader header{mode, deltas.size(), 0};
  if (!deltas.empty()) {
    SHOAL_ASSIGN_OR_RETURN(header.delta_bytes,
                           EncodeDeltas(ContextFor(shape, key, deltas.size()), mode, deltas,
                                        out.subspan(kMessageHeaderBytes), counted));
  }
  std::size_t written = kMessageHeaderBytes + header.delta_bytes;
  if (!firsts.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           EncodeWhole(ContextFor(shape, key, firsts.size()), &Firsts(mode), firsts,
                                       &images_, out.subspan(written), counted));
    written += bytes;
  }
  WriteAqsgdHeader(header, images_.bits(), out.data());
  if (stats != nullptr) stats->Add(seen);
  return written;
}

Status DeviceAqsgdCodec::DecodeDeltas(const DeviceContext& context, DeltaMode mode,
                                      std::span<const std::byte> section,
                                      std::span<DeviceSample> samples) {
  DeviceSection& coded = Deltas(mode);
  SHOAL_RETURN_IF_ERROR(coded.Stage(context, section));
  if (Fuses(mode)) return coded.Decode(context, samples, true);
  SHOAL_RETURN_IF_ERROR(coded.Decode(context, samples, false));
  return images_.Advance(context, samples, true);
}

Status DeviceAqsgdCodec::DecodeMessage(std::span<const std::byte> payload,
                                       std::vector<DeviceSample>* deltas,
                                       std::vector<DeviceSample>* firsts, std::size_t delta_count,
                                       std::size_t first_count, const DeviceContext& context) {
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

Status DeviceAqsgdCodec::Decode(std::span<const std::byte> payload,
                                std::span<const DeviceSampleToDecode> samples, SampleShape shape,
                                const RandomKey& key, std::span<std::byte* const> next_m,
                                void* stream) {
  SHOAL_RETURN_IF_ERROR(CheckDeviceShape(shape, samples.size(), spec()));
  SHOAL_CHECK(next_m.size() == samples.size());
  queue_->Use(stream);
  std::vector<DeviceSample> deltas, firsts;  // the wanted ones
  std::size_t delta_count = 0, first_count = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    DeviceSample sample;
    sample.index = static_cast<std::uint32_t>(samples[i].delta ? delta_count++ : first_count++);
    if (samples[i].values == nullptr) continue;
    sample.values = samples[i].values;
    sample.next_m = next_m[i];
    SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.next_m, i, spec()));
    if (samples[i].delta) {
      sample.m = samples[i].m;
      SHOAL_CHECK(sample.m != sample.next_m);
      SHOAL_RETURN_IF_ERROR(CheckImageAddress(sample.m, i, spec()));
    }
    (samples[i].delta ? deltas : firsts).push_back(sample);
  }
  return DecodeMessage(payload, &deltas, &firsts, delta_count, first_count,
                       ContextFor(shape, key, samples.size()));
}

}  // namespace

Result<std::unique_ptr<DeviceCodec>> NewDeviceAqsgdCodec(const CodecSpec& spec,
                                                         std::uint32_t hidden, MakeNested nested,
                                                         MakeSection section,
                                                         std::unique_ptr<DeviceQueue> queue) {
  SHOAL_ASSIGN_OR_RETURN(AqsgdParts parts, MakeAqsgdParts(spec, hidden, nested));
  Sections sections;
  SHOAL_ASSIGN_OR_RETURN(sections.delta, section(*parts.delta));
  SHOAL_ASSIGN_OR_RETURN(sections.wide, section(*parts.wide));
  SHOAL_ASSIGN_OR_RETURN(sections.first, section(*parts.first_visit));
  SHOAL_ASSIGN_OR_RETURN(sections.full, section(*parts.full));
  SHOAL_CHECK(parts.one_pass == nullptr || parts.scaled || sections.delta->fuses_delta());
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<DeviceAqsgdCodec>(std::move(parts), std::move(sections), std::move(queue)));
}

}  // namespace shoal::compression
