// Mutex with clang's thread-safety annotations; plain std::mutex is invisible to the analysis.

#ifndef SHOAL_COMMON_MUTEX_H_
#define SHOAL_COMMON_MUTEX_H_

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define SHOAL_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define SHOAL_THREAD_ANNOTATION(x)
#endif

#define SHOAL_GUARDED_BY(x) SHOAL_THREAD_ANNOTATION(guarded_by(x))
#define SHOAL_REQUIRES(...) SHOAL_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))

namespace shoal {

class SHOAL_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void Lock() SHOAL_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void Unlock() SHOAL_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class SHOAL_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SHOAL_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() SHOAL_THREAD_ANNOTATION(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class ConditionVariable {
 public:
  // Releases `mutex` while waiting; may wake without a signal.
  void Wait(Mutex& mutex) SHOAL_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.native(), std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace shoal

#endif  // SHOAL_COMMON_MUTEX_H_
