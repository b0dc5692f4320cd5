#include "storage/delta/delta_size.h"

#include <algorithm>

namespace shoal::storage {

DeltaSize ComputeDeltaSize(const DeltaImages& sample, std::uint64_t samples,
                           std::uint64_t of_pipeline, std::uint32_t stages) {
  const std::uint64_t boundaries = stages > 1 ? stages - 1 : 0;
  DeltaSize size;
  size.sample = sample;
  size.boundary_bytes = sample.m * of_pipeline;
  size.residual_bytes = sample.residual * of_pipeline;
  size.middle_bytes = size.boundary_bytes * std::min<std::uint64_t>(boundaries, 2) +
                      size.residual_bytes * std::min<std::uint64_t>(boundaries, 1);
  size.all_bytes = (sample.m * 2 + sample.residual) * samples * boundaries;
  return size;
}

std::uint64_t DeltaDiskBytesMax(StoreSpace space, std::uint64_t bytes) {
  return space == StoreSpace::kTight ? bytes / 2 * 3 : bytes / 5 * 11;
}

std::uint64_t DeltaBytesIn(StoreSpace space, std::uint64_t disk_bytes) {
  return space == StoreSpace::kTight ? disk_bytes / 3 * 2 : disk_bytes / 11 * 5;
}

}  // namespace shoal::storage
