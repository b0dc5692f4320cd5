#include "client/base/programs.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace shoal::client {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path OwnFolder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

}  // namespace

Result<std::string> FindProgram(const std::string& name) {
  const fs::path path = OwnFolder() / name;
  if (::access(path.c_str(), X_OK) == 0) return path.string();
  return NotFound("the program " + name + " is not beside this one (" + OwnFolder().string() +
                  "); build it with ./x build, or install all of shoal");
}

Result<std::string> FindExamples() {
  std::error_code error;
  const std::string given = Environment("SHOAL_EXAMPLES");
  const fs::path candidates[] = {given, OwnFolder() / "../share/shoal/examples",
                                 OwnFolder() / "../../../examples"};
  for (const fs::path& path : candidates) {
    if (!path.empty() && fs::is_directory(path / "tiny-gpt2", error)) {
      return fs::weakly_canonical(path, error).string();
    }
  }
  return NotFound("the folder examples/ was not found; set SHOAL_EXAMPLES to where it is");
}

std::string DefaultDirectory() {
  if (const std::string given = Environment("SHOAL_DIR"); !given.empty()) return given;
  if (const std::string state = Environment("XDG_STATE_HOME"); !state.empty()) {
    return state + "/shoal";
  }
  return Environment("HOME") + "/.local/state/shoal";
}

}  // namespace shoal::client
