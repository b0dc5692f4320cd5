// StreamCount: calls that gRPC still uses; their owner waits for none before it goes.

#ifndef SHOAL_NET_BASE_STREAM_COUNT_H_
#define SHOAL_NET_BASE_STREAM_COUNT_H_

#include "common/mutex.h"

namespace shoal::net {

// Thread: any.
class StreamCount {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
  }
  void Remove() {
    MutexLock lock(mutex_);
    if (--count_ == 0) none_.NotifyAll();
  }
  void WaitForNone() {
    MutexLock lock(mutex_);
    while (count_ > 0) none_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  ConditionVariable none_;
  int count_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_STREAM_COUNT_H_
