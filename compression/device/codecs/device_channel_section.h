// Codes with one scale per channel (channel_codec.h) on a device: extremes of the channels, codes
// and values there; scales are chosen, and entropy coders run, on the CPU. Internal to
// compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_CHANNEL_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_CHANNEL_SECTION_H_

#include <memory>

#include "compression/codecs/channel_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceChannelSection(const ChannelCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_CHANNEL_SECTION_H_
