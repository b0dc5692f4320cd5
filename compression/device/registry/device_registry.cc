#include "compression/device/registry/device_registry.h"

#include <string>
#include <utility>

#include "compression/codecs/aqsgd/aqsgd_codec.h"
#include "compression/device/codecs/device_aqsgd_codec.h"
#include "compression/device/codecs/device_bucket_section.h"
#include "compression/device/codecs/device_channel_section.h"
#include "compression/device/codecs/device_dithered_section.h"
#include "compression/device/codecs/device_klt_section.h"
#include "compression/device/codecs/device_raw_section.h"
#include "compression/device/codecs/device_scaled_section.h"
#include "compression/device/codecs/device_tile_section.h"
#include "compression/device/codecs/device_topk_section.h"
#include "compression/device/device_codec.h"
#include "compression/device/device_queue.h"
#include "compression/device/plain_device_codec.h"
#include "compression/registry/codec_registry.h"

namespace shoal::compression {
namespace {

template <typename Codec, std::unique_ptr<DeviceSection> (*make)(const Codec&)>
Result<std::unique_ptr<DeviceSection>> Make(const PlainCodec& codec) {
  return make(static_cast<const Codec&>(codec));
}

Result<std::unique_ptr<DeviceSection>> MakeScaled(const PlainCodec& codec) {
  const auto& scaled = static_cast<const ScaledCodec&>(codec);
  SHOAL_ASSIGN_OR_RETURN(auto inner, NewDeviceSection(*scaled.inner()));
  return NewDeviceScaledSection(scaled, std::move(inner));
}

// Registration: a kind of codecs without memory has a form on a device by its line here, whether it
// makes a message or is nested in another codec.
struct SectionForm {
  const CodecKind* kind;
  MakeSection make;
};
constexpr SectionForm kSections[] = {
    {&RawCodec::kKind, Make<RawCodec, NewDeviceRawSection>},
    {&DirectCodec::kKind, Make<DirectCodec, NewDeviceBucketSection>},
    {&ChannelCodec::kKind, Make<ChannelCodec, NewDeviceChannelSection>},
    {&TilesCodec::kKind, Make<TilesCodec, NewDeviceTileSection>},
    {&AdaptiveTilesCodec::kKind, Make<AdaptiveTilesCodec, NewDeviceAdaptiveTileSection>},
    {&TopKCodec::kKind, Make<TopKCodec, NewDeviceTopKSection>},
    {&DitheredCodec::kKind, Make<DitheredCodec, NewDeviceDitheredSection>},
    {&KltCodec::kKind, Make<KltCodec, NewDeviceKltSection>},
    {&ScaledCodec::kKind, MakeScaled},
};

// Registration: any other codec has one by its line here.
struct MessageForm {
  const CodecEntry& (*codec)();
  Result<std::unique_ptr<DeviceCodec>> (*make)(const CodecSpec& spec, std::uint32_t hidden,
                                               MakeNested nested, MakeSection section,
                                               std::unique_ptr<DeviceQueue> queue);
};
constexpr MessageForm kMessages[] = {
    {AqsgdEntry, NewDeviceAqsgdCodec},
};

Status NoDeviceForm(const std::string& spec) {
  return Unimplemented("codec " + spec + " has no form on a device; use it on the CPU");
}

}  // namespace

Result<std::unique_ptr<DeviceSection>> NewDeviceSection(const PlainCodec& codec) {
  for (const SectionForm& form : kSections) {
    if (form.kind == codec.kind()) return form.make(codec);
  }
  return NoDeviceForm(codec.spec());
}

Result<std::unique_ptr<DeviceCodec>> NewDeviceCodec(std::string_view text, std::uint32_t hidden,
                                                    std::unique_ptr<DeviceQueue> queue) {
  SHOAL_ASSIGN_OR_RETURN(const ParsedCodec parsed, ParseCodec(text, hidden));
  const CodecEntry& entry = *parsed.entry;
  for (const MessageForm& form : kMessages) {
    if (&form.codec() != &entry) continue;
    return form.make(parsed.spec, hidden, NestCodec, NewDeviceSection, std::move(queue));
  }
  if (entry.make_plain == nullptr || parsed.feedback) return NoDeviceForm(std::string(text));
  SHOAL_ASSIGN_OR_RETURN(PlainPointer plain, entry.make_plain(parsed.spec, hidden));
  SHOAL_ASSIGN_OR_RETURN(auto section, NewDeviceSection(*plain));
  return NewPlainDeviceCodec(std::move(plain), std::move(section), std::move(queue));
}

Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(std::string_view spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(auto queue, NewCudaQueue());
  return NewDeviceCodec(spec, hidden, std::move(queue));
}

}  // namespace shoal::compression
