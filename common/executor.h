// Executor: one named thread (or, in tests, virtual time) on which posted tasks run one at a time,
// in order of posting. All mutable daemon state lives on one of these, the control executor.

#ifndef SHOAL_COMMON_EXECUTOR_H_
#define SHOAL_COMMON_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/clock.h"

namespace shoal {

using TimerId = std::uint64_t;

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task` on the executor's thread, after everything posted before it. `name` is a string
  // literal, for statistics. Never blocks. Thread: any.
  virtual void Post(const char* name, std::function<void()> task) = 0;

  // Runs `task` on the executor's thread once `delay` has passed. Thread: any.
  virtual TimerId PostAfter(const char* name, Duration delay, std::function<void()> task) = 0;

  // Forgets a timer that has not run; no effect on one that has. Thread: the executor's own.
  virtual void CancelTimer(TimerId timer) = 0;

  virtual bool InThread() const = 0;       // Thread: any.
  virtual const Clock& clock() const = 0;  // Thread: any.
};

namespace internal {
[[noreturn]] void CalledOffThread(const char* file, int line, const char* method);
}  // namespace internal

// First in every public method of an object that belongs to `executor`: aborts with the method's
// name, and so its class's, on any other thread. Costs a look at a variable of the thread, so
// release builds have it, too.
#define SHOAL_ASSERT_ON(executor)                                                  \
  do {                                                                             \
    if (!(executor).InThread()) [[unlikely]]                                       \
      ::shoal::internal::CalledOffThread(__FILE__, __LINE__, __PRETTY_FUNCTION__); \
  } while (false)

// A thread of its own, named `thread_name` (at most 15 characters), on which tasks run. The
// destructor runs what was posted (timers excepted), then joins. Owner: the caller.
std::unique_ptr<Executor> NewThreadExecutor(std::string thread_name);

// A fixed pool: tasks start in order of posting, run on any of `threads` threads; InThread() holds
// on each. The destructor runs what was posted, then joins.
std::unique_ptr<Executor> NewThreadPool(std::string thread_name, int threads);

}  // namespace shoal

#endif  // SHOAL_COMMON_EXECUTOR_H_
