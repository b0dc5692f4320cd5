#include "common/open_file.h"

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

Status CheckAccess(const std::string& path, int mode) {
  if (::access(path.c_str(), mode) == 0 || errno != EACCES) return Status::Ok();
  return PermissionDenied("this user may not open " + path +
                          "; where it is another user's, give the command as that user, or with "
                          "sudo");
}

}  // namespace shoal
