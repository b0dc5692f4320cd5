// TaskGate: lets an owner whose tasks run on another executor go without waiting for those that
// have not started, and only shortly for those that run.

#ifndef SHOAL_NET_BASE_TASK_GATE_H_
#define SHOAL_NET_BASE_TASK_GATE_H_

#include "common/mutex.h"

namespace shoal::net {

// Thread: any. Shared by the owner and its tasks.
class TaskGate {
 public:
  // Whether a task may run; if so it must call Leave at its end.
  bool Enter() {
    MutexLock lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    MutexLock lock(mutex_);
    if (--inside_ == 0) empty_.NotifyAll();
  }
  // Lets nobody in any more and waits until all are out.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    while (inside_ > 0) empty_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  ConditionVariable empty_;
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
  int inside_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_TASK_GATE_H_
