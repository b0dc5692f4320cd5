// Whole files: reading with a size limit, atomic replacement, read-only mapping.

#ifndef SHOAL_COMMON_FILE_H_
#define SHOAL_COMMON_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"

namespace shoal {

// Of what is opened to be read: it must be a regular file. A pipe would wait for its writer.
Status CheckRegularFile(const std::string& path);

// The file's bytes; larger than `max_bytes` is an error (resource exhausted).
Result<std::string> ReadFile(const std::string& path, std::uint64_t max_bytes);

// Replaces `path` by `bytes`: temporary file in the same folder, fsync, rename. After a failure
// (disk full, say) the old file is whole and no temporary is left. `mode` is the file's mode.
Status WriteFileAtomic(const std::string& path, std::string_view bytes, unsigned mode = 0644);

// mkdir -p; folders that are made get `mode`.
Status MakeDirectories(const std::string& path, unsigned mode = 0755);

// The same for the folder of a program's state, mode 0700; one that every user may write into is an
// error.
Status MakeOwnFolder(const std::string& path);

// A file mapped read-only into memory; pages are read when touched. Empty files map to no bytes.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  const std::string path_;
  const std::byte* const data_;
  const std::size_t size_;
};

}  // namespace shoal

#endif  // SHOAL_COMMON_FILE_H_
