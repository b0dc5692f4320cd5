#include "common/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace shoal {

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "write " + path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return Status::Ok();
}

Status SyncFolder(const std::string& folder) {
  const std::string name = folder.empty() ? "." : folder;
  const OpenFile fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.fd() < 0) return FromErrno(errno, "open folder " + name);
  // Some file systems cannot sync folders and say EINVAL; the rename is as durable as they offer.
  if (::fsync(fd.fd()) == 0 || errno == EINVAL) return Status::Ok();
  return FromErrno(errno, "fsync folder " + name);
}

Status CheckAccess(const std::string& path, int mode) {
  if (::access(path.c_str(), mode) == 0 || errno != EACCES) return Status::Ok();
  return PermissionDenied("this user may not open " + path +
                          "; where it is another user's, give the command as that user, or with "
                          "sudo");
}

}  // namespace shoal
