// Turned and dithered tokens (klt_codec.h) on a device: tokens are turned and coded there;
// directions are fitted on the CPU, from a few hundred tokens that it fetches. Internal to
// compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_KLT_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_KLT_SECTION_H_

#include <memory>

#include "compression/codecs/dithered/klt_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceKltSection(const KltCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_KLT_SECTION_H_
