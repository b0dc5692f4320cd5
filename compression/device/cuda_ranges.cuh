// Ranges of values over the lanes of a warp. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CUDA_RANGES_CUH_
#define SHOAL_COMPRESSION_DEVICE_CUDA_RANGES_CUH_

#include "compression/device/cuda_launch.cuh"
#include "compression/device/lane_buckets.h"

namespace shoal::compression {

// Of `lanes` adjacent lanes, a power of two. Every lane of the warp takes part.
__device__ inline LaneRange RangeOfTile(LaneRange range, std::uint32_t lanes, bool bounds) {
  for (std::uint32_t by = lanes / 2; by > 0; by /= 2) {
    LaneRange other;
    other.most = __shfl_xor_sync(~0U, range.most, by);
    if (bounds) {
      other.low = __shfl_xor_sync(~0U, range.low, by);
      other.high = __shfl_xor_sync(~0U, range.high, by);
    }
    range.Add(other);
  }
  return range;
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CUDA_RANGES_CUH_
