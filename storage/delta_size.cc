#include "storage/delta_size.h"

#include <algorithm>

namespace shoal::storage {

DeltaSize ComputeDeltaSize(std::uint64_t image_bytes, std::uint64_t samples, std::uint32_t stages,
                           std::uint32_t pipelines) {
  const std::uint64_t boundaries = stages > 1 ? stages - 1 : 0;
  const std::uint64_t of_pipeline = (samples + pipelines - 1) / pipelines;
  DeltaSize size;
  size.sample_bytes = image_bytes;
  size.boundary_bytes = image_bytes * of_pipeline;
  size.middle_bytes = size.boundary_bytes * std::min<std::uint64_t>(boundaries, 2);
  size.all_bytes = size.boundary_bytes * boundaries * pipelines * 2;
  return size;
}

std::uint64_t DeltaDiskBytesMax(StoreSpace space, std::uint64_t bytes) {
  return space == StoreSpace::kTight ? bytes / 2 * 3 : bytes / 5 * 11;
}

}  // namespace shoal::storage
