// What the device codecs of all kinds share: checks of what they are given, and samples that are
// coded themselves rather than their changes. Internal to compression/. Thread: any, one call at a
// time.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_CODING_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_CODING_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "compression/api/codec.h"
#include "compression/device/device_images.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// Error unless a device can code so many samples of this shape.
Status CheckDeviceShape(SampleShape shape, std::size_t samples, std::string_view spec);
// Error if there is no image, or one that a device cannot write with wide stores.
Status CheckImageAddress(const std::byte* image, std::size_t sample, std::string_view spec);

// Writes the section of `samples`, from their x, to `out` and returns its bytes. Makes their next_m
// by `images` (null: they have no m); `stats` may be null.
Result<std::size_t> EncodeWhole(const DeviceContext& context, DeviceSection* section,
                                std::span<DeviceSample> samples, const DeviceImages* images,
                                std::span<std::byte> out, CodingStats* stats);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_CODING_H_
