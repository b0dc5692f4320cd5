// What a file or folder lets this user do.

#ifndef SHOAL_COMMON_FILE_ACCESS_H_
#define SHOAL_COMMON_FILE_ACCESS_H_

#include <string>

#include "common/status.h"

namespace shoal {

// Permission denied where this user may not use what is at `path` as `mode` says (access(2)); it
// names what a person can do. OK also where nothing is there.
Status CheckAccess(const std::string& path, int mode);

}  // namespace shoal

#endif  // SHOAL_COMMON_FILE_ACCESS_H_
