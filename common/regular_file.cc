#include "common/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace shoal {
namespace {

Status NotRegular(const std::string& path) {
  return InvalidArgument(path +
                         " is not a regular file but a pipe or a device; write what it "
                         "gives into a file first, or delete it");
}

}  // namespace

Result<int> OpenRegularFile(const std::string& path, struct stat* info, int flags, unsigned mode) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, mode);
  if (fd < 0 && errno == ENXIO) return NotRegular(path);  // nobody reads from the pipe
  if (fd < 0 && errno == EISDIR) return InvalidArgument(path + " is a folder, not a file");
  if (fd < 0) return FromErrno(errno, ((flags & O_CREAT) != 0 ? "create " : "open ") + path);
  Status status;
  if (::fstat(fd, info) != 0) {
    status = FromErrno(errno, "stat " + path);
  } else if (S_ISDIR(info->st_mode)) {
    status = InvalidArgument(path + " is a folder, not a file");
  } else if (!S_ISREG(info->st_mode)) {
    status = NotRegular(path);
  }
  if (status.ok()) return fd;
  ::close(fd);
  return status;
}

Result<int> OpenRegularFile(const std::string& path, int flags, unsigned mode) {
  struct stat info {};
  return OpenRegularFile(path, &info, flags, mode);
}

Status CheckFolderOfFiles(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::file_status found = at->status(error);
    // A link to what is not there is what the library makes of it.
    if (fs::exists(found) && !fs::is_regular_file(found) && !fs::is_directory(found)) {
      return NotRegular(at->path().string());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return FromErrno(error.value(), "read the folder " + folder);
  }
  return Status::Ok();
}

Result<std::string> ReadFileFrom(const std::string& path, std::uint64_t offset,
                                 std::uint64_t max_bytes) {
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, &info));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::string bytes(offset < size ? std::min(size - offset, max_bytes) : 0, '\0');
  std::size_t done = 0;
  Status status;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = FromErrno(errno, "read " + path);
    if (got <= 0) break;  // shortened meanwhile
    done += static_cast<std::size_t>(got);
  }
  ::close(fd);
  if (!status.ok()) return status;
  bytes.resize(done);
  return bytes;
}

}  // namespace shoal
