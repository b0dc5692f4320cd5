// Where the tests of the model compute: SHOAL_TEST_DEVICE, or the CPU.

#ifndef SHOAL_TESTS_UNIT_MODEL_TEST_DEVICE_H_
#define SHOAL_TESTS_UNIT_MODEL_TEST_DEVICE_H_

#include <cstdlib>
#include <string>

namespace shoal::model {

inline std::string TestDevice() {
  const char* device = std::getenv("SHOAL_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

}  // namespace shoal::model

#endif  // SHOAL_TESTS_UNIT_MODEL_TEST_DEVICE_H_
