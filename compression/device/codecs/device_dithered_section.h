// Dithered quantisation (dithered_codec.h) on a device: energies, cells and values there; step,
// classes, channels and tables are chosen, and cells entropy-coded, on the CPU. Internal to
// compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_

#include <memory>

#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceDitheredSection(const DitheredCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_
