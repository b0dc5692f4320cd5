// The DeltaStore that all backends share: an in-memory index of headers over a end for bytes.
//
// The index answers inventory, checksums and the quota without reading an image; it is rebuilt from
// the backend's headers at open and costs kIndexBytesPerRecord each. Thread: as DeltaStore.

#ifndef SHOAL_STORAGE_DELTA_INDEXED_DELTA_STORE_H_
#define SHOAL_STORAGE_DELTA_INDEXED_DELTA_STORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "storage/delta/delta_records.h"
#include "storage/delta/delta_store.h"

namespace shoal::storage {

// Where the bytes of records live.
class DeltaBackend {
 public:
  using StagedImage = std::uint64_t;
  struct Put {
    std::string key;
    DeltaHeaderBytes header;
    StagedImage image;
  };

  struct Usage {
    std::uint64_t disk_bytes = 0;          // of the files now
    std::uint64_t disk_written_bytes = 0;  // since opening
    std::uint64_t memory_bytes = 0;
  };

  virtual ~DeltaBackend() = default;
  virtual Status VisitHeaders(
      const std::function<void(std::string_view key, std::span<const std::byte> header)>&
          visit) = 0;
  // Header and image of a key, unchecked. Not found or data loss: damaged; else: unreadable now.
  virtual Status Read(const std::string& key, DeltaHeaderBytes* header, Buffer* image) = 0;
  // Writes an image that no Read sees until a Write puts it under this key and header.
  virtual Result<StagedImage> Stage(const std::string& key, const DeltaHeaderBytes& header,
                                    std::span<const std::byte> image) = 0;
  virtual void Unstage(StagedImage image) = 0;
  // First the puts, then the removals, in order; after a failure the first ones may be there. The
  // images of the puts are used up either way.
  virtual Status Write(std::span<const Put> puts, std::span<const std::string> removals) = 0;
  virtual Status Flush() = 0;
  virtual Status Compact() = 0;
  // After a failure: true if everything held is gone, staged images too (its folder was deleted),
  // and the backend begins anew, empty.
  virtual bool BeginAnewIfGone() = 0;
  virtual Usage usage() const = 0;  // Thread: any.
};

struct DeltaLimits {
  std::uint64_t bytes = 0;         // of images; 0: none
  std::uint64_t records = 0;       // in the index; 0: none
  std::uint64_t memory_bytes = 0;  // what stats() reports as the limit
};

// What records take, or may take.
struct DeltaRoom {
  std::uint64_t bytes = 0, records = 0;

  DeltaRoom Plus(const DeltaRoom& more) const {
    return {bytes + more.bytes, records + more.records};
  }
  DeltaRoom Less(std::uint64_t image_bytes) const { return {bytes - image_bytes, records - 1}; }
  // At most what the limits allow.
  DeltaRoom Within(const DeltaLimits& limits) const {
    return {limits.bytes == 0 ? bytes : std::min(bytes, limits.bytes),
            limits.records == 0 ? records : std::min(records, limits.records)};
  }
  bool IsWithin(const DeltaLimits& limits) const {
    const DeltaRoom most = Within(limits);
    return bytes == most.bytes && records == most.records;
  }
  // Whether there is room for another record of so many bytes.
  bool LeavesRoom(const DeltaLimits& limits, std::uint64_t size) const {
    return Plus({size, 1}).IsWithin(limits);
  }
};

// Reads the headers of `backend`; records whose header is damaged are dropped and counted.
// `notice` is passed on by stats().
Result<std::unique_ptr<DeltaStore>> NewIndexedDeltaStore(std::unique_ptr<DeltaBackend> backend,
                                                         const DeltaLimits& limits,
                                                         std::string notice = {});

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_INDEXED_DELTA_STORE_H_
