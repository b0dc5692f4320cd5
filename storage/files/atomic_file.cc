#include "storage/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/open_file.h"

namespace shoal::storage {

Status WriteFully(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "write " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Status::Ok();
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  std::string temporary = path + ".tmp-XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return FromErrno(errno, "create " + temporary);
  return std::unique_ptr<AtomicFile>(new AtomicFile(path, std::move(temporary), fd));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(temporary_.c_str());
}

Status AtomicFile::Append(std::span<const std::byte> bytes) {
  return WriteFully(fd_, bytes, path_);
}

Status AtomicFile::Commit() {
  if (::fchmod(fd_, 0644) != 0) return FromErrno(errno, "chmod " + path_);
  if (::fsync(fd_) != 0) return FromErrno(errno, "fsync " + path_);
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) return FromErrno(errno, "close " + path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FromErrno(errno, "rename to " + path_);
  }
  committed_ = true;
  return SyncFolder(std::filesystem::path(path_).parent_path().string());
}

}  // namespace shoal::storage
