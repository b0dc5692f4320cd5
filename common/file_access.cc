#include "common/file_access.h"

#include <unistd.h>

#include <cerrno>

namespace shoal {

Status CheckAccess(const std::string& path, int mode) {
  if (::access(path.c_str(), mode) == 0 || errno != EACCES) return Status::Ok();
  return PermissionDenied("this user may not open " + path +
                          "; where it is another user's, give the command as that user, or with "
                          "sudo");
}

}  // namespace shoal
