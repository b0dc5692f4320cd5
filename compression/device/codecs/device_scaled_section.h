// Channel scales (scaled_codec.h) on a device, over any section: factors are multiplied there, from
// exponents that are chosen on the CPU. Internal to compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_SCALED_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_SCALED_SECTION_H_

#include <memory>

#include "compression/codecs/scaled/scaled_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section; `inner` is that of codec.inner().
std::unique_ptr<DeviceSection> NewDeviceScaledSection(const ScaledCodec& codec,
                                                      std::unique_ptr<DeviceSection> inner);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_SCALED_SECTION_H_
