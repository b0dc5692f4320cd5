// Where the dataset tests find their data and put their files.

#ifndef SHOAL_TESTS_UNIT_DATASET_TEST_PATHS_H_
#define SHOAL_TESTS_UNIT_DATASET_TEST_PATHS_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace shoal::dataset {

inline std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

inline std::string TinyGpt2() { return Environment("SHOAL_SOURCE_DIR") + "/examples/tiny-gpt2"; }
inline std::string Shakespeare() {
  return Environment("SHOAL_SOURCE_DIR") + "/examples/tinyshakespeare.txt";
}

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = ::testing::TempDir() + "/shoal-dataset-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_TESTS_UNIT_DATASET_TEST_PATHS_H_
