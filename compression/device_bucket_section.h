// Bucket codes (direct_codec.h) on a device: changes are coded against a 16-bit m in the same pass.
// Internal to compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_BUCKET_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_BUCKET_SECTION_H_

#include <memory>

#include "compression/device_section.h"

namespace shoal::compression {

// Null if `codec`, which outlives the section, is not DirectCodec.
std::unique_ptr<DeviceSection> NewDeviceBucketSection(const PlainCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_BUCKET_SECTION_H_
