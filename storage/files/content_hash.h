// BLAKE2b-256 of files, read in pieces.

#ifndef SHOAL_STORAGE_FILES_CONTENT_HASH_H_
#define SHOAL_STORAGE_FILES_CONTENT_HASH_H_

#include <cstdint>
#include <string>

#include "common/status.h"
#include "storage/files/content_store.h"

namespace shoal::storage {

struct FileHash {
  ContentHash hash;
  std::uint64_t size = 0;
};

// Hashes an open file from its beginning to its end; `path` is for messages.
Result<FileHash> HashDescriptor(int fd, const std::string& path);
Result<FileHash> HashFile(const std::string& path);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_CONTENT_HASH_H_
