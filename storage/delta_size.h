// How much m a run keeps: shown before it starts, by the organiser's tools and by every peer. Pure.

#ifndef SHOAL_STORAGE_DELTA_SIZE_H_
#define SHOAL_STORAGE_DELTA_SIZE_H_

#include <cstdint>

#include "storage/delta_store.h"

namespace shoal::storage {

struct DeltaSize {
  std::uint64_t sample_bytes = 0;    // of an image at one end
  std::uint64_t boundary_bytes = 0;  // at one end of one pipeline's boundary, all samples visited
  std::uint64_t middle_bytes = 0;    // a peer with two boundaries, or with the one there is
  std::uint64_t all_bytes = 0;       // all boundaries of all pipelines, both ends
};

// `image_bytes`: the forward codec's, 0 if it keeps no m. Each pipeline owns an equal part of the
// samples, rounded up.
DeltaSize ComputeDeltaSize(std::uint64_t image_bytes, std::uint64_t samples, std::uint32_t stages,
                           std::uint32_t pipelines);

// What the files may take while `bytes` of m are held and rewritten.
std::uint64_t DeltaDiskBytesMax(StoreSpace space, std::uint64_t bytes);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_SIZE_H_
