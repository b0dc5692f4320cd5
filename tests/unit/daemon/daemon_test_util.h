// What the tests of daemon/ share: folders that vanish, work on an executor, waiting.

#ifndef SHOAL_TESTS_UNIT_DAEMON_DAEMON_TEST_UTIL_H_
#define SHOAL_TESTS_UNIT_DAEMON_DAEMON_TEST_UTIL_H_

#include <string>

#include "tests/support/on_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {

using test_support::RunOn;
using test_support::TemporaryFolder;
using test_support::WaitUntil;

inline std::string SourceFile(const std::string& name) {
  return test_support::Environment("SHOAL_SOURCE_DIR") + "/" + name;
}

}  // namespace shoal::daemon

#endif  // SHOAL_TESTS_UNIT_DAEMON_DAEMON_TEST_UTIL_H_
