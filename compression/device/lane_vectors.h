// Vectors as lanes of a GPU change them (lane_values.h). Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_LANE_VECTORS_H_
#define SHOAL_COMPRESSION_DEVICE_LANE_VECTORS_H_

#include "compression/device/jobs/vector_jobs.h"
#include "compression/device/lane_values.h"

namespace shoal::compression {

SHOAL_LANE void UpdateValue(const VectorJob& job, std::uint64_t i) {
  switch (job.op) {
    case VectorOp::kCopy: job.to[i] = job.from[i]; return;
    case VectorOp::kAdd: job.to[i] = job.to[i] + job.from[i]; return;
    case VectorOp::kSubtract: job.to[i] = job.to[i] - job.from[i]; return;
    case VectorOp::kScale: job.to[i] = job.to[i] * job.factor; return;
    case VectorOp::kAddScaled: {
      const float scaled = job.from[i] * job.factor;
      job.to[i] = job.to[i] + scaled;
      return;
    }
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_LANE_VECTORS_H_
