// Bucket codes (direct_codec.h) on a device: changes are coded against a 16-bit m in the same pass.
//
// Internal to compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_BUCKET_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_BUCKET_SECTION_H_

#include <cstddef>
#include <memory>
#include <span>

#include "compression/codecs/bucket_section.h"
#include "compression/codecs/direct_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceBucketSection(const DirectCodec& codec);

// What sections of this format share, whatever their codes stand for: room for scales and codes; a
// job's rule and places; the section's bytes once the jobs that make it are asked for (waits for
// them); and the way of a foreign section to the device, with all checks.
Status ReserveBuckets(const BucketFormat& format, const DeviceContext& context);
void DescribeBuckets(const BucketFormat& format, const DeviceContext& context, BucketJob* job);
Result<std::size_t> FetchBuckets(const BucketFormat& format, const DeviceContext& context,
                                 std::span<std::byte> out);
Status StageBuckets(const BucketFormat& format, const DeviceContext& context,
                    std::span<const std::byte> section);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_BUCKET_SECTION_H_
