// How much m and residuals a run keeps: shown before it starts, by the organiser's tools and by
// every peer. Pure.

#ifndef SHOAL_STORAGE_DELTA_DELTA_SIZE_H_
#define SHOAL_STORAGE_DELTA_DELTA_SIZE_H_

#include <cstdint>

#include "storage/delta/delta_store.h"

namespace shoal::storage {

// Bytes of one sample's images, of all its segments; 0 where the codec keeps none.
struct DeltaImages {
  std::uint64_t m = 0;         // at both ends of a boundary, of activations and gradients
  std::uint64_t residual = 0;  // of gradients, at the upper end
};

struct DeltaSize {
  DeltaImages sample;
  // m at one end of one pipeline's boundary, residuals at its upper end; all samples visited.
  std::uint64_t boundary_bytes = 0, residual_bytes = 0;
  std::uint64_t middle_bytes = 0;  // a peer with two boundaries, or the upper end of the only one
  std::uint64_t all_bytes = 0;     // all boundaries of all pipelines, both ends
};

// Of a run of `samples` samples, of which the pipeline in question has `of_pipeline`.
DeltaSize ComputeDeltaSize(const DeltaImages& sample, std::uint64_t samples,
                           std::uint64_t of_pipeline, std::uint32_t stages);

// What the files may take while `bytes` of images are held and rewritten.
std::uint64_t DeltaDiskBytesMax(StoreSpace space, std::uint64_t bytes);
// The images whose files take no more than `disk_bytes`.
std::uint64_t DeltaBytesIn(StoreSpace space, std::uint64_t disk_bytes);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_DELTA_SIZE_H_
