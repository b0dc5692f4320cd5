// Paths as people type them.

#ifndef SHOAL_CLIENT_BASE_PATHS_H_
#define SHOAL_CLIENT_BASE_PATHS_H_

#include <string>

#include "common/status.h"

namespace shoal::client {

// The same place as an absolute path, without ".", ".." and a slash at the end. What a daemon is
// told must not depend on the folder that it was started in. Nothing of it needs to exist.
std::string AbsolutePath(const std::string& path);
// Where a command puts all that it makes, as an absolute path: `directory`, which may be missing,
// or if that is empty a temporary folder that is new, "shoal-`what`-" and random letters. Already
// exists if there is something in it. The caller makes it.
Result<std::string> EmptyFolder(const std::string& directory, const std::string& what);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_PATHS_H_
