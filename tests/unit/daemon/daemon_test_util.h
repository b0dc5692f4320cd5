// What the tests of daemon/ share: folders that vanish, work on an executor, waiting.

#ifndef SHOAL_TESTS_UNIT_DAEMON_DAEMON_TEST_UTIL_H_
#define SHOAL_TESTS_UNIT_DAEMON_DAEMON_TEST_UTIL_H_

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "common/executor.h"

namespace shoal::daemon {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoal-daemon-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs `task` on the executor and returns what it returns.
template <typename Task>
auto RunOn(Executor* executor, Task task) {
  using Value = decltype(task());
  std::packaged_task<Value()> packaged(std::move(task));
  auto future = packaged.get_future();
  executor->Post("test", [&packaged] { packaged(); });
  return future.get();
}

// Asks on the executor until it holds; false after a time that no healthy machine needs.
inline bool WaitUntil(Executor* executor, const std::function<bool()>& holds) {
  for (int i = 0; i < 12000; ++i) {
    if (RunOn(executor, holds)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

inline std::string SourceFile(const std::string& name) {
  const char* source = std::getenv("SHOAL_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/" + name;
}

}  // namespace shoal::daemon

#endif  // SHOAL_TESTS_UNIT_DAEMON_DAEMON_TEST_UTIL_H_
