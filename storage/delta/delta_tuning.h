// How the delta store divides its memory and how large its image files are. Pure.
//
// Training visits all samples once per epoch. So a file of one epoch dies as a whole within the
// next and is unlinked without copying anything: write amplification stays at 1. Let a fraction x
// of an epoch be done, in random order, with live records taking space 1. New files then take x,
// and an old file of k records still exists with probability 1 - x^k. The worst x gives the space
// amplification 1 + (1/k)^(1/(k-1)) (1 - 1/k): 1.25, 1.38, 1.47, 1.65 for k = 2, 3, 4, 8; 2 at
// most.

#ifndef SHOAL_STORAGE_DELTA_DELTA_TUNING_H_
#define SHOAL_STORAGE_DELTA_DELTA_TUNING_H_

#include <cstdint>

#include "storage/delta/delta_store.h"

namespace shoal::storage {

// A smaller memory setting is taken as this.
inline constexpr std::uint64_t kDeltaMemoryMin = 4ull << 20;
inline constexpr std::uint64_t kIndexBytesPerRecord = 88;
inline constexpr std::uint64_t kBytesPerImageFile = 112;
inline constexpr int kWriteBuffersMax = 2;

// Bytes; none is 0.
struct DeltaMemory {
  std::uint64_t write_buffer = 0;  // of headers; at most kWriteBuffersMax of them
  std::uint64_t block_cache = 0;   // of tables of headers
  std::uint64_t index = 0;         // headers of all records
  std::uint64_t image_files = 0;   // the account of image files
};
DeltaMemory DivideDeltaMemory(std::uint64_t memory_bytes);

// The size at which an image file is closed, so that there are about `files_max` files at most.
// Records have `record_bytes` each, `live_bytes` together.
std::uint64_t ImageFileBytes(StoreSpace space, std::uint64_t record_bytes, std::uint64_t live_bytes,
                             std::uint64_t files_max);

// Garbage beyond this share of the live bytes is collected by copying. Epochs alone stay below it;
// records that are no longer visited, in files with others that are, go beyond.
double GarbageShareMax(StoreSpace space);

// Dead files are kept, to be written anew, while all files take no more than this share beyond the
// live bytes. The share is below the worst that an epoch leaves at its middle, so the folder does
// not grow by it.
double KeptShareMax(StoreSpace space);

// Dead files that may wait for the flush of headers that lets them be unlinked, in bytes.
std::uint64_t WaitingBytesMax(std::uint64_t live_bytes);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_DELTA_TUNING_H_
