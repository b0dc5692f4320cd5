// Work and waiting on an executor, for tests with real threads.

#ifndef SHOAL_TESTS_SUPPORT_ON_EXECUTOR_H_
#define SHOAL_TESTS_SUPPORT_ON_EXECUTOR_H_

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "common/executor.h"

namespace shoal::test_support {

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

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_ON_EXECUTOR_H_
