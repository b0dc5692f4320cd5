// topk (topk_codec.h) on a device: selection, codes and values there; the positions cross the bus
// as a bitmap and are Rice-coded, parsed and checked on the host. Internal to compression/. Thread:
// as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_TOPK_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_TOPK_SECTION_H_

#include <memory>

#include "compression/codecs/topk_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceTopKSection(const TopKCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_TOPK_SECTION_H_
