// ExecutorGate: an executor for calls of gRPC, which may end after their owner and after the
// executor itself. Once the gate is closed, their posts are dropped.
//
// So an owner goes without waiting for its calls: it cancels them and closes the gate. The calls
// end in the background, on gRPC's threads, and touch nothing but what they own.

#ifndef SHOAL_NET_BASE_EXECUTOR_GATE_H_
#define SHOAL_NET_BASE_EXECUTOR_GATE_H_

#include <functional>
#include <utility>

#include "common/executor.h"
#include "common/mutex.h"

namespace shoal::net {

// Thread: any, unless noted.
class ExecutorGate {
 public:
  explicit ExecutorGate(Executor* executor) : executor_(executor) {}

  // As of Executor; `name` is a string literal.
  void Post(const char* name, std::function<void()> task) {
    MutexLock lock(mutex_);
    if (executor_ != nullptr) executor_->Post(name, std::move(task));
  }
  void PostAfter(const char* name, Duration delay, std::function<void()> task) {
    MutexLock lock(mutex_);
    if (executor_ != nullptr) executor_->PostAfter(name, delay, std::move(task));
  }
  // Nothing is timed behind a closed gate: there it stands still.
  TimePoint Now() {
    MutexLock lock(mutex_);
    return executor_ != nullptr ? executor_->clock().Now() : TimePoint{};
  }

  // Thread: the executor's. What was posted before still runs.
  void Close() {
    MutexLock lock(mutex_);
    if (executor_ != nullptr) SHOAL_ASSERT_ON(*executor_);
    executor_ = nullptr;
  }

 private:
  Mutex mutex_;
  Executor* executor_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_EXECUTOR_GATE_H_
