// CodingStats of samples in device memory: the same share of the values and the same additions as
// on the CPU (delta_section.h), so that both give the same numbers. Internal to compression/.
// Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_STATS_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_STATS_H_

#include <cstddef>
#include <span>

#include "compression/device/device_section.h"

namespace shoal::compression {

// Adds samples of which `x` was sent and `values` (null: the 16-bit image next_m) is what the
// receiver gets; m, where there is one, is an image of `bits` bits. `block`: values of a block, of
// which one in kStatsShare is looked at for errors.
Status CountOnDevice(const DeviceContext& context, int bits, std::size_t block,
                     std::span<const DeviceSample> samples, CodingStats* stats);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_STATS_H_
