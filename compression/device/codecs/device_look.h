// What encoders look at of the tokens that were sent last (SendSamples) beside their energies:
// values of a few of them. Internal to compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_LOOK_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_LOOK_H_

#include <cstddef>
#include <span>
#include <vector>

#include "compression/device/device_section.h"

namespace shoal::compression {

// Sends the values that changes lead to as the samples of the next job.
Status SendFollowed(const DeviceContext& context);

LookRow LookRowOf(std::size_t token, SampleShape shape, float scale);
// LookJob: the first `width` values of each row, one row after the other, or `width` sums.
Result<std::vector<float>> LookAtTokens(const DeviceContext& context, LookPass pass,
                                        std::size_t width, std::span<const LookRow> look_rows);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_LOOK_H_
