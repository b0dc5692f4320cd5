// Dithered quantisation (dithered_codec.h) on a device: energies, cells and values there; step,
// classes, channels and tables are chosen, and cells entropy-coded, on the CPU. Internal to
// compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_

#include <memory>

#include "compression/device/device_section.h"

namespace shoal::compression {

// Null if `codec`, which outlives the section, is not DitheredCodec.
std::unique_ptr<DeviceSection> NewDeviceDitheredSection(const PlainCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_
