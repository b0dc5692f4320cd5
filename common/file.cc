#include "common/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/open_file.h"
#include "common/regular_file.h"

namespace shoal {
namespace {

// A file's size is not believed beyond this until its bytes have come.
constexpr std::uint64_t kReserveMax = std::uint64_t{1} << 30;

}  // namespace

Status CheckRegularFile(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  ::close(fd);
  return Status::Ok();
}

Result<std::string> ReadFile(const std::string& path, std::uint64_t max_bytes) {
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, &info));
  const OpenFile fd(opened);
  const auto too_large = [&] {
    return ResourceExhausted(path + " is larger than the limit of " + std::to_string(max_bytes) +
                             " bytes");
  };
  // The size is a hint only: the file may grow while it is read.
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_bytes) return too_large();
  std::string bytes;
  bytes.reserve(std::min<std::uint64_t>(size, kReserveMax));
  char chunk[65536];
  for (;;) {
    const ssize_t got = ::read(fd.fd(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, "read " + path);
    if (got == 0) return bytes;
    bytes.append(chunk, static_cast<std::size_t>(got));
    if (bytes.size() > max_bytes) return too_large();
  }
}

Status WriteFileAtomic(const std::string& path, std::string_view bytes, unsigned mode) {
  std::string temporary = path + ".tmp-XXXXXX";
  const int raw = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (raw < 0) return FromErrno(errno, "create " + temporary);
  Status status;
  {
    OpenFile fd(raw);
    status = WriteAll(fd.fd(), bytes, path);
    if (status.ok() && ::fsync(fd.fd()) != 0) status = FromErrno(errno, "fsync " + path);
    if (status.ok() && ::fchmod(fd.fd(), mode) != 0) status = FromErrno(errno, "chmod " + path);
  }
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = FromErrno(errno, "rename to " + path);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

Status MakeDirectories(const std::string& path, unsigned mode) {
  if (path.empty()) return InvalidArgument("a folder needs a name");
  std::string prefix;
  for (std::size_t i = 0; i <= path.size(); ++i) {
    const bool border = i == path.size() || path[i] == '/';
    if (border && !prefix.empty() && prefix != "/" && ::mkdir(prefix.c_str(), mode) != 0 &&
        errno != EEXIST) {
      return FromErrno(errno, "create folder " + prefix);
    }
    if (i < path.size()) prefix.push_back(path[i]);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return FailedPrecondition(path + " exists and is not a folder");
  }
  return Status::Ok();
}

Status MakeOwnFolder(const std::string& path) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return FromErrno(errno, "stat " + path);
  if ((info.st_mode & S_IWOTH) != 0) {
    return FailedPrecondition("every user of this machine may write into " + path +
                              ", and change what is kept there; forbid it with: chmod o-w " + path);
  }
  return Status::Ok();
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, &info));
  const OpenFile fd(opened);
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.fd(), 0);
    if (data == MAP_FAILED) return FromErrno(errno, "map " + path);
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace shoal
