#include "storage/delta_size.h"

#include <algorithm>

namespace shoal::storage {

DeltaSize ComputeDeltaSize(const DeltaImages& sample, std::uint64_t samples, std::uint32_t stages,
                           std::uint32_t pipelines) {
  const std::uint64_t boundaries = stages > 1 ? stages - 1 : 0;
  const std::uint64_t of_pipeline = (samples + pipelines - 1) / pipelines;
  DeltaSize size;
  size.sample = sample;
  size.boundary_bytes = sample.m * of_pipeline;
  size.residual_bytes = sample.residual * of_pipeline;
  size.middle_bytes = size.boundary_bytes * std::min<std::uint64_t>(boundaries, 2) +
                      size.residual_bytes * std::min<std::uint64_t>(boundaries, 1);
  size.all_bytes = (size.boundary_bytes * 2 + size.residual_bytes) * boundaries * pipelines;
  return size;
}

std::uint64_t DeltaDiskBytesMax(StoreSpace space, std::uint64_t bytes) {
  return space == StoreSpace::kTight ? bytes / 2 * 3 : bytes / 5 * 11;
}

}  // namespace shoal::storage
