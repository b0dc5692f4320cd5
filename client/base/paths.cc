#include "client/base/paths.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace shoal::client {

namespace fs = std::filesystem;

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  // First made absolute: weakly_canonical alone leaves a path relative whose first part is missing.
  const fs::path whole = fs::absolute(path, error);
  if (error) return path;
  fs::path resolved = fs::weakly_canonical(whole, error);
  if (error) resolved = whole.lexically_normal();
  if (!resolved.has_filename() && resolved.has_relative_path()) resolved = resolved.parent_path();
  return resolved.string();
}

Result<std::string> EmptyFolder(const std::string& directory, const std::string& what) {
  std::error_code error;
  if (directory.empty()) {
    std::string name = (fs::temp_directory_path(error) / ("shoal-" + what + "-XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) return FromErrno(errno, "create " + name);
    return name;
  }
  std::string folder = fs::absolute(directory, error).string();
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    return AlreadyExists(folder + " is not empty; choose another --dir");
  }
  return folder;
}

}  // namespace shoal::client
