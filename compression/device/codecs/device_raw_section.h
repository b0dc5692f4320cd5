// Plain values (raw_codec.h) on a device. Internal to compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_RAW_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_RAW_SECTION_H_

#include <memory>

#include "compression/device/device_section.h"

namespace shoal::compression {

// Null if `codec`, which outlives the section, is not RawCodec.
std::unique_ptr<DeviceSection> NewDeviceRawSection(const PlainCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_RAW_SECTION_H_
