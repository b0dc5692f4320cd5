// DeltaStore: keeps m, the activation that both ends of a boundary last agreed on, per sample.
//
// AQ-SGD (paper section 3, algorithm 1) needs the same m on both ends; every record carries the
// version (the step whose Apply made it) and an XXH3-64 checksum, so that a mismatch is found and
// becomes a first visit. Values may be lost (no write-ahead log), never be wrong.
// Thread: store (calls block on disk); safe from one thread at a time.

#ifndef SHOAL_STORAGE_DELTA_STORE_H_
#define SHOAL_STORAGE_DELTA_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/buffer.h"
#include "common/ids.h"
#include "common/status.h"

namespace shoal::storage {

// Which end of boundary i this store is: stage i sends, stage i + 1 receives.
enum class BoundarySide : std::uint8_t { kSender = 0, kReceiver = 1 };

struct DeltaPlace {
  RunId run;
  std::uint32_t boundary = 0;
  BoundarySide side = BoundarySide::kSender;
  auto operator<=>(const DeltaPlace&) const = default;
};

struct DeltaRecord {
  std::uint64_t version = 0;   // step whose Apply made it, + 1; never 0
  std::uint64_t checksum = 0;  // XXH3-64 of image
  std::uint32_t tokens = 0;
  std::uint32_t hidden = 0;
  Buffer image;  // compression's m image, opaque here
};

struct DeltaInventoryEntry {
  SampleId sample;
  std::uint64_t version = 0;
  std::uint64_t checksum = 0;
};

struct DeltaStoreStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;   // Get found nothing usable
  std::uint64_t corrupt = 0;  // of these: checksum or header was wrong, record dropped
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;  // payload bytes of live records
  std::uint64_t bytes_limit = 0;
  std::uint64_t evicted = 0;
};

struct DeltaUpdate {
  SampleId sample;
  DeltaRecord record;
};

struct DeltaStoreOptions {
  std::string path;
  std::uint64_t bytes_max = 0;  // quota of image bytes; 0: none
  std::uint64_t cache_bytes = 64ull << 20;
};

class DeltaStore {
 public:
  virtual ~DeltaStore() = default;

  // The record of a sample, or nothing (missing, or dropped because header or checksum is wrong).
  virtual Result<std::optional<DeltaRecord>> Get(const DeltaPlace& place, SampleId sample) = 0;

  // Replaces the records of one step, all or (after a crash) a prefix of whole records. Over the
  // quota, records are evicted or refused; `evicted` tells which samples of `place` lost theirs.
  virtual Status Commit(const DeltaPlace& place, std::span<const DeltaUpdate> updates,
                        std::vector<SampleId>* evicted) = 0;

  // Everything held for a place, in order of sample; headers only are read.
  virtual Result<std::vector<DeltaInventoryEntry>> Inventory(const DeltaPlace& place) = 0;

  // Forgets the records of a run whose version is above `version` (rollback to a checkpoint).
  virtual Status DropNewerThan(RunId run, std::uint64_t version) = 0;
  // Forgets single records (the other end no longer has them).
  virtual Status Drop(const DeltaPlace& place, std::span<const SampleId> samples) = 0;

  // XXH3-64 over (sample, version, checksum) of all records of a place in order: equal on both
  // ends of a boundary after every step.
  virtual Result<std::uint64_t> PlaceChecksum(const DeltaPlace& place) = 0;

  // Makes everything committed durable (called at checkpoints and on shutdown).
  virtual Status Flush() = 0;
  virtual DeltaStoreStats stats() const = 0;  // Thread: any.
};

// A store in folder options.path (made if missing; locked: a second opener gets a clear error).
Result<std::unique_ptr<DeltaStore>> OpenRocksDeltaStore(const DeltaStoreOptions& options);
// In memory, same behaviour, for tests and benches.
std::unique_ptr<DeltaStore> NewMemoryDeltaStore(std::uint64_t bytes_max);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_STORE_H_
