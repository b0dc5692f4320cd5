#include "client/base/paths.h"

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

}  // namespace shoal::client
