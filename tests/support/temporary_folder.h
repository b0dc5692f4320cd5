// A folder for one test, and what CTest tells it in the environment.

#ifndef SHOAL_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define SHOAL_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/status.h"

namespace shoal::test_support {

// Made empty, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  explicit TemporaryFolder(const std::filesystem::path& parent) {
    std::string pattern = (parent / "shoal-test-XXXXXX").string();
    SHOAL_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Where files live in memory: for what writes many small ones and syncs each. Without such a
  // place an ordinary one.
  static std::filesystem::path InMemory() {
    const char* const memory = "/dev/shm";
    return ::access(memory, W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Empty where it is not set: SHOAL_TEST_DATA, SHOAL_SHARED_DATA, SHOAL_SOURCE_DIR, SHOAL_BIN.
inline std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
