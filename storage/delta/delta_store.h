// DeltaStore: keeps m, the activation that both ends of a boundary last agreed on, per segment of a
// sample.
//
// AQ-SGD (paper section 3, algorithm 1) needs the same m on both ends. Every record has a version
// (the step whose Apply made it) and an XXH3-64 checksum. So a mismatch is found and becomes a
// first visit. Values may be lost (no write-ahead log, a disk that is full, damaged or gone), never
// be wrong. A failing disk makes records missing, it does not fail the calls.
// What a step makes is staged image by image and becomes records once the step is applied.
// Thread: store (calls block on disk); safe from one thread at a time.

#ifndef SHOAL_STORAGE_DELTA_DELTA_STORE_H_
#define SHOAL_STORAGE_DELTA_DELTA_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/memory/buffer.h"
#include "common/status.h"

namespace shoal::storage {

// Which end of boundary i this store is. Stage i sends activations, stage i + 1 receives them.
// kResidual, at stage i + 1, holds no m, but what that stage left out of the gradients it sent
// back. Only that stage has it, so nobody has to agree on it, and it makes room for m. Of gradients
// that build on an m of their own, stage i + 1 is the sender and stage i the receiver.
enum class BoundarySide : std::uint8_t {
  kSender = 0,
  kReceiver = 1,
  kResidual = 2,
  kGradientSender = 3,
  kGradientReceiver = 4,
};
// "sender", "receiver", "residual", "gradient sender", "gradient receiver"
std::string_view BoundarySideName(BoundarySide side);
// Where there is no room for all, what is worth less goes first: a lost residual, 0, is only not
// fed back; m of gradients, 1, and m of activations, 2, cost bytes at the next visit, the latter
// about twice as many.
inline constexpr int kWorthOfGradients = 1;
int WorthOf(BoundarySide side);

struct BoundaryEnd {
  RunId run;
  std::uint32_t boundary = 0;
  BoundarySide side = BoundarySide::kSender;
  auto operator<=>(const BoundaryEnd&) const = default;
};

struct DeltaRecord {
  std::uint64_t version = 0;   // step whose Apply made it, + 1; never 0
  std::uint64_t checksum = 0;  // XXH3-64 of image: whoever makes the record sees to it
  std::uint32_t tokens = 0;
  std::uint32_t hidden = 0;
  Buffer image;  // compression's m image, opaque here
};

struct DeltaInventoryEntry {
  SegmentId segment;
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
  std::uint64_t staged_bytes = 0;  // image bytes written, but not committed
  std::uint64_t evicted = 0;       // by the quota
  std::uint64_t lost = 0;          // the disk refused to write or to read them
  // Since opening: image bytes that commits kept, and what the disk was given to hold them.
  std::uint64_t committed_bytes = 0;
  std::uint64_t disk_written_bytes = 0;
  std::uint64_t disk_bytes = 0;  // of the files, records no longer live included
  std::uint64_t memory_bytes = 0;
  std::string trouble;  // why records were lost, until a later write succeeds; one line
  std::string notice;   // what was found at opening and lasts, one line
};

struct DeltaUpdate {
  SegmentId segment;
  DeltaRecord record;
};

// Space of the files while an epoch rewrites all records in random order: default below 2.2 times
// the live bytes; tight below 1.5 times, in more files.
enum class StoreSpace : std::uint8_t { kDefault, kTight };

struct DeltaStoreOptions {
  std::string path;
  std::uint64_t bytes_max = 0;                // quota of image bytes; 0: none
  std::uint64_t memory_bytes = 256ull << 20;  // of write buffers, cache and index
  StoreSpace space = StoreSpace::kDefault;
};

class DeltaStore {
 public:
  virtual ~DeltaStore() = default;

  // The record of a segment, or nothing (missing, damaged or unreadable; then it is dropped).
  virtual Result<std::optional<DeltaRecord>> Get(const BoundaryEnd& end, SegmentId segment) = 0;

  // Writes the image of a record that is to be, served by nothing before CommitStaged. Of two for
  // the same segment and version the later one counts. What the disk refuses, or what the quota
  // certainly will, is lost at the commit. A checksum that is not the image's is found by Get.
  virtual Status Stage(const BoundaryEnd& end, const DeltaUpdate& update) = 0;
  // Makes what is staged for `end` with this version records, in end of those of the same
  // segments: headers only are written. `evicted` gets the segments of `end` that have no record
  // any more: refused by the quota or given up for it, refused by the disk, or found unreadable
  // since the last commit. Quota: what is there stays, as long as it is of this run; other runs go
  // first, and then, where m needs room, residuals. Where m of activations was refused, m of
  // gradients leaves as much room as a step's takes, with its own commits.
  virtual Status CommitStaged(const BoundaryEnd& end, std::uint64_t version,
                              std::vector<SegmentId>* evicted) = 0;
  // Forgets what is staged for `end` with this version.
  virtual Status DropStaged(const BoundaryEnd& end, std::uint64_t version) = 0;
  // Stages all and commits them, version by version.
  Status Commit(const BoundaryEnd& end, std::span<const DeltaUpdate> updates,
                std::vector<SegmentId>* evicted);

  // Everything held for a end, in order of segment; headers only are read.
  virtual Result<std::vector<DeltaInventoryEntry>> Inventory(const BoundaryEnd& end) = 0;

  // Forgets the records of a run whose version is above `version` (rollback to a checkpoint). All
  // that is staged goes, too, of any run: no step runs during a rollback.
  virtual Status DropNewerThan(RunId run, std::uint64_t version) = 0;
  // Forgets single records up to a version (the other end no longer has them).
  virtual Status Drop(const BoundaryEnd& end, std::span<const SegmentId> segments,
                      std::uint64_t version_max) = 0;
  // Forgets all records of a run.
  virtual Status DropRun(RunId run) = 0;
  // Every end that has records.
  virtual std::vector<BoundaryEnd> Ends() const = 0;

  // Sum of the XXH3-64 of (segment, version, checksum) of all records of a end: equal on both ends
  // of a boundary after every step.
  virtual Result<std::uint64_t> ChecksumOf(const BoundaryEnd& end) = 0;

  // A lower quota than that of the options, from the next commit on; 0: theirs. What is above it
  // goes by the rule of CommitStaged, m of activations of a run as its samples come up.
  virtual void LimitBytes(std::uint64_t bytes_max) = 0;

  // Makes everything committed durable (called at checkpoints and on shutdown). Fails if the disk
  // refuses; what was committed is then still there until the process ends.
  virtual Status Flush() = 0;
  // Copies what is live together and unlinks the rest. Long.
  virtual Status Compact() = 0;
  virtual DeltaStoreStats stats() const = 0;  // Thread: any.
};

// A store in folder options.path (made if missing; locked: a second opener gets a clear error). If
// the folder's files are damaged, it is renamed to `<path>.damaged` (one such is kept), and the
// store begins empty with a notice in stats().
Result<std::unique_ptr<DeltaStore>> OpenRocksDeltaStore(const DeltaStoreOptions& options);
// The same for a peer that must start: where the disk is full, a store that keeps nothing and says
// so in its notice.
Result<std::unique_ptr<DeltaStore>> OpenRocksDeltaStoreOrNone(const DeltaStoreOptions& options);
// In memory, same behaviour, for tests and benches.
std::unique_ptr<DeltaStore> NewMemoryDeltaStore(std::uint64_t bytes_max, std::string notice = {});

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_DELTA_STORE_H_
