// The DeltaStore that all backends share: an in-memory index of headers over a place for bytes.
//
// The index answers inventory, checksums and the quota without reading an image; it is rebuilt from
// the backend's headers at open and costs about 100 bytes a record. Thread: as DeltaStore.

#ifndef SHOAL_STORAGE_INDEXED_DELTA_STORE_H_
#define SHOAL_STORAGE_INDEXED_DELTA_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "storage/delta_records.h"
#include "storage/delta_store.h"

namespace shoal::storage {

// Where the bytes of records live.
class DeltaBackend {
 public:
  struct Put {
    std::string key;
    DeltaHeaderBytes header;
    std::span<const std::byte> image;
  };

  virtual ~DeltaBackend() = default;
  virtual Status VisitHeaders(
      const std::function<void(std::string_view key, std::span<const std::byte> header)>&
          visit) = 0;
  // Calls `visit` with header and image; not found or data loss (damaged on disk) otherwise.
  virtual Status Read(const std::string& key,
                      const std::function<void(std::span<const std::byte> value)>& visit) = 0;
  // All or nothing, first the puts, then the removals.
  virtual Status Write(std::span<const Put> puts, std::span<const std::string> removals) = 0;
  virtual Status Flush() = 0;
};

// Reads the headers of `backend`; records whose header is damaged are dropped and counted.
Result<std::unique_ptr<DeltaStore>> NewIndexedDeltaStore(std::unique_ptr<DeltaBackend> backend,
                                                         std::uint64_t bytes_max);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_INDEXED_DELTA_STORE_H_
