#include "compression/device/device_registry.h"

#include "compression/device/codecs/device_bucket_section.h"
#include "compression/device/codecs/device_channel_section.h"
#include "compression/device/codecs/device_dithered_section.h"
#include "compression/device/codecs/device_raw_section.h"
#include "compression/device/codecs/device_tile_section.h"
#include "compression/device/codecs/device_topk_section.h"

namespace shoal::compression {
namespace {

template <typename Codec, std::unique_ptr<DeviceSection> (*make)(const Codec&)>
std::unique_ptr<DeviceSection> Make(const PlainCodec& codec) {
  return make(static_cast<const Codec&>(codec));
}

// Registration: a kind of codecs has a form on a device by its line here.
struct DeviceForm {
  const CodecKind* kind;
  std::unique_ptr<DeviceSection> (*make)(const PlainCodec& codec);
};
constexpr DeviceForm kForms[] = {
    {&RawCodec::kKind, Make<RawCodec, NewDeviceRawSection>},
    {&DirectCodec::kKind, Make<DirectCodec, NewDeviceBucketSection>},
    {&ChannelCodec::kKind, Make<ChannelCodec, NewDeviceChannelSection>},
    {&TilesCodec::kKind, Make<TilesCodec, NewDeviceTileSection>},
    {&AdaptiveTilesCodec::kKind, Make<AdaptiveTilesCodec, NewDeviceAdaptiveTileSection>},
    {&TopKCodec::kKind, Make<TopKCodec, NewDeviceTopKSection>},
    {&DitheredCodec::kKind, Make<DitheredCodec, NewDeviceDitheredSection>},
};

}  // namespace

Result<std::unique_ptr<DeviceSection>> NewDeviceSection(const PlainCodec& codec) {
  for (const DeviceForm& form : kForms) {
    if (form.kind == codec.kind()) return form.make(codec);
  }
  return Unimplemented("codec " + codec.spec() + " has no form on a device; use it on the CPU");
}

}  // namespace shoal::compression
