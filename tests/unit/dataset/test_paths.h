// Where the tests of dataset/ find their data and put their files.

#ifndef SHOAL_TESTS_UNIT_DATASET_TEST_PATHS_H_
#define SHOAL_TESTS_UNIT_DATASET_TEST_PATHS_H_

#include <string>

#include "tests/support/temporary_folder.h"

namespace shoal::dataset {

using test_support::Environment;
using test_support::TemporaryFolder;

inline std::string TinyGpt2() { return Environment("SHOAL_SOURCE_DIR") + "/examples/tiny-gpt2"; }
inline std::string Shakespeare() {
  return Environment("SHOAL_SOURCE_DIR") + "/examples/tinyshakespeare.txt";
}

}  // namespace shoal::dataset

#endif  // SHOAL_TESTS_UNIT_DATASET_TEST_PATHS_H_
