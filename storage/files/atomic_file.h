// AtomicFile: a file written piece by piece that appears under its name whole or not at all.
//
// For files too large to hold in memory; small ones use WriteFileAtomic. Thread: one at a time.

#ifndef SHOAL_STORAGE_FILES_ATOMIC_FILE_H_
#define SHOAL_STORAGE_FILES_ATOMIC_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"

namespace shoal::storage {

class AtomicFile {
 public:
  // Opens a temporary file beside `path`.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  // Deletes the temporary unless Commit succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status Append(std::span<const std::byte> bytes);
  // fsyncs, renames to `path` (replacing it) and fsyncs the folder.
  Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);

  const std::string path_;
  const std::string temporary_;
  int fd_;
  bool committed_ = false;
};

// Writes all bytes to a descriptor, resuming after interruptions; `path` is for the message.
Status WriteFully(int fd, std::span<const std::byte> bytes, const std::string& path);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_ATOMIC_FILE_H_
