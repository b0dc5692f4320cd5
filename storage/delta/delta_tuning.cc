#include "storage/delta/delta_tuning.h"

#include <algorithm>

namespace shoal::storage {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;
// Sequential enough for any disk, and few of them; smaller while the store is small.
constexpr std::uint64_t kDefaultFileBytesMin = kMiB, kDefaultFileBytesMax = 16 * kMiB;
constexpr std::uint64_t kDefaultFilesMin = 32;
constexpr std::uint64_t kTightRecordsPerFile = 3;

}  // namespace

DeltaMemory DivideDeltaMemory(std::uint64_t memory_bytes) {
  const std::uint64_t all = std::max(memory_bytes, kDeltaMemoryMin);
  DeltaMemory memory;
  memory.write_buffer = std::min(all / 16, 8 * kMiB);
  memory.block_cache = all / 8;
  memory.index = all / 2;
  memory.image_files = all / 8;
  return memory;
}

std::uint64_t ImageFileBytes(StoreSpace space, std::uint64_t record_bytes, std::uint64_t live_bytes,
                             std::uint64_t files_max) {
  if (space == StoreSpace::kDefault) {
    return std::clamp(live_bytes / kDefaultFilesMin, kDefaultFileBytesMin, kDefaultFileBytesMax);
  }
  // A file is closed by the record that reaches the size.
  const std::uint64_t wanted = kTightRecordsPerFile * record_bytes - record_bytes / 2;
  return std::max(wanted, live_bytes / std::max<std::uint64_t>(files_max, 1) * 3 / 2);
}

double GarbageShareMax(StoreSpace space) { return space == StoreSpace::kDefault ? 1.1 : 0.42; }

double KeptShareMax(StoreSpace space) { return space == StoreSpace::kDefault ? 0.5 : 0.35; }

std::uint64_t WaitingBytesMax(std::uint64_t live_bytes) {
  return std::clamp(live_bytes / 64, 4 * kMiB, 1024 * kMiB);
}

}  // namespace shoal::storage
