// Plain values (raw_codec.h) on a device. Internal to compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_RAW_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_RAW_SECTION_H_

#include <memory>

#include "compression/codecs/raw_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceRawSection(const RawCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_RAW_SECTION_H_
