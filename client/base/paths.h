// Paths as people type them.

#ifndef SHOAL_CLIENT_BASE_PATHS_H_
#define SHOAL_CLIENT_BASE_PATHS_H_

#include <string>

namespace shoal::client {

// The same place as an absolute path, without ".", ".." and a slash at the end. What a daemon is
// told must not depend on the folder that it was started in. Nothing of it needs to exist.
std::string AbsolutePath(const std::string& path);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_PATHS_H_
