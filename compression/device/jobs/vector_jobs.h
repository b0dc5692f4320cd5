// What a device is asked to do with vectors of values, as exchanges add them up. Internal to
// compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_VECTOR_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_VECTOR_JOBS_H_

#include <cstdint>

#include "compression/api/vector_op.h"

namespace shoal::compression {

// to = op(from, to), value by value.
struct VectorJob {
  VectorOp op = VectorOp::kCopy;
  float factor = 1;
  std::uint64_t count = 0;
  const float* from = nullptr;  // unused by kScale
  float* to = nullptr;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_VECTOR_JOBS_H_
