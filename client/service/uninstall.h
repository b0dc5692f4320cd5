// `shoal uninstall`: what shoal left on this machine for this user, and its end.

#ifndef SHOAL_CLIENT_SERVICE_UNINSTALL_H_
#define SHOAL_CLIENT_SERVICE_UNINSTALL_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/exit_code.h"

namespace shoal::client {

struct LeftBehind {
  std::string path;
  std::uint64_t bytes = 0;  // of a folder: of all files below
};

// What of a peer's state lies in `directory`, by its names; nothing else is ever listed, whatever
// else lies there. Links are listed, not followed.
std::vector<LeftBehind> StateOf(const std::string& directory);

struct UninstallOptions {
  std::string directory;
  bool yes = false;   // do not ask
  bool json = false;  // only list
};

// `runs`: whether a shoald answers there. `input`: what the person answers.
ExitCode Uninstall(const UninstallOptions& options, const std::function<bool()>& runs,
                   std::istream& input);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_SERVICE_UNINSTALL_H_
