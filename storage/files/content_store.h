// ContentStore: immutable blobs named by their BLAKE2b-256 hash: weights per layer, prepared data,
// optimizer state. What the scheduler hands out and volunteers cache.
//
// A blob being fetched lives in a partial file that survives a restart, so a fetch resumes.
// A blob is hashed when it is first used after opening, and again when its file has changed since.
// One that is not what its name says is deleted and counts as missing: whoever needs it fetches it.
// Thread: any one at a time (daemon: store), but for bytes().

#ifndef SHOAL_STORAGE_FILES_CONTENT_STORE_H_
#define SHOAL_STORAGE_FILES_CONTENT_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::storage {

struct ContentHash {
  std::array<std::uint8_t, 32> digest{};

  std::string ToHex() const;
  static Result<ContentHash> FromHex(std::string_view hex);
  auto operator<=>(const ContentHash&) const = default;
};

// An artefact as a manifest names it.
struct ArtefactRef {
  std::string name;  // "embedding", "layer.3", "head", "data", "layer.3.optimizer"
  ContentHash hash;
  std::uint64_t size = 0;
  bool operator==(const ArtefactRef&) const = default;
};

ContentHash HashOf(std::span<const std::byte> bytes);

class ContentStore {
 public:
  virtual ~ContentStore() = default;

  // Whether the blob is here, whole and undamaged.
  virtual bool Has(const ContentHash& hash) const = 0;
  // Path of such a blob, to map or read; not found otherwise.
  virtual Result<std::string> PathOf(const ContentHash& hash) const = 0;
  // Adds bytes, or a file (hard-linked or copied); returns its name.
  virtual Result<ContentHash> Put(std::span<const std::byte> bytes) = 0;
  virtual Result<ContentHash> PutFile(const std::string& path) = 0;

  // Reads [offset, offset + size) of a complete blob, fewer bytes at its end.
  virtual Result<std::string> Read(const ContentHash& hash, std::uint64_t offset,
                                   std::size_t size) const = 0;

  // Bytes already there of an unfinished fetch; 0 if none was begun.
  virtual std::uint64_t PartialSize(const ContentHash& hash) const = 0;
  // Appends at `offset`, which must equal PartialSize.
  virtual Status AppendPartial(const ContentHash& hash, std::uint64_t offset,
                               std::span<const std::byte> bytes) = 0;
  // Verifies size and hash of the partial and makes it a blob; wrong bytes are deleted (data loss).
  virtual Status FinishPartial(const ContentHash& hash, std::uint64_t expected_size) = 0;

  // Deletes a blob and what is there of an unfinished fetch of it; one that is not there is fine.
  virtual Status Remove(const ContentHash& hash) = 0;
  // Deletes all blobs but these, and unfinished fetches of others.
  virtual Status KeepOnly(std::span<const ContentHash> hashes) = 0;
  // Names of all blobs, not verified.
  virtual std::vector<ContentHash> Hashes() const = 0;
  virtual std::uint64_t bytes() const = 0;
};

// Blobs as files below `path` (made if missing).
Result<std::unique_ptr<ContentStore>> OpenFileContentStore(const std::string& path);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_CONTENT_STORE_H_
