// Shows the thread sanitizer how gRPC orders its threads. Linked into tests of the preset tsan
// alone.
//
// The libraries of gRPC are built without the sanitizer, which so does not see that a callback on
// one of gRPC's threads comes after the call that caused it. The functions here take the place of
// functions of those libraries (a program's symbols come before those of libraries), call them, and
// tell the sanitizer what was acquired or released:
//
// - the locks: gRPC 1.51 locks with absl::Mutex of a shared library;
// - the completion queue, which hands a tag from the thread that started an operation to the thread
//   that runs its callback, by atomics.
//
// The names of the locks are those of Debian 12's abseil. Functions of another version are not
// replaced, and the sanitizer reports races inside of gRPC again.

#include <dlfcn.h>
#include <grpc/grpc.h>

#include <cstddef>
#include <cstdint>

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);

struct AbslDuration {
  std::int64_t high;
  std::uint32_t low;
};

void _ZN4absl7debian35Mutex4LockEv(void* mutex);
void _ZN4absl7debian35Mutex6UnlockEv(void* mutex);
bool _ZN4absl7debian35Mutex7TryLockEv(void* mutex);
void _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(void* condition, void* mutex);
bool _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE(void* condition,
                                                                          void* mutex,
                                                                          AbslDuration duration);
}

namespace {

template <typename Function>
Function* Real(Function* /*ours*/, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define SHOAL_REAL(name) Real(&name, #name)

void _ZN4absl7debian35Mutex4LockEv(void* mutex) {
  static const auto real = SHOAL_REAL(_ZN4absl7debian35Mutex4LockEv);
  real(mutex);
  __tsan_acquire(mutex);
}

void _ZN4absl7debian35Mutex6UnlockEv(void* mutex) {
  static const auto real = SHOAL_REAL(_ZN4absl7debian35Mutex6UnlockEv);
  __tsan_release(mutex);
  real(mutex);
}

bool _ZN4absl7debian35Mutex7TryLockEv(void* mutex) {
  static const auto real = SHOAL_REAL(_ZN4absl7debian35Mutex7TryLockEv);
  const bool locked = real(mutex);
  if (locked) __tsan_acquire(mutex);
  return locked;
}

void _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(void* condition, void* mutex) {
  static const auto real = SHOAL_REAL(_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE);
  __tsan_release(mutex);
  real(condition, mutex);
  __tsan_acquire(mutex);
}

bool _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE(void* condition,
                                                                          void* mutex,
                                                                          AbslDuration duration) {
  static const auto real =
      SHOAL_REAL(_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE);
  __tsan_release(mutex);
  const bool timed_out = real(condition, mutex, duration);
  __tsan_acquire(mutex);
  return timed_out;
}

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, std::size_t count,
                                      void* tag, void* reserved) {
  static const auto real = SHOAL_REAL(grpc_call_start_batch);
  if (tag != nullptr) __tsan_release(tag);
  return real(call, ops, count, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static const auto real = SHOAL_REAL(grpc_completion_queue_next);
  const grpc_event event = real(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}
