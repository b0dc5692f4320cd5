// IdleObjects: objects that one call at a time may use, kept for the calls to come. There are as
// many as calls have run at once.
//
// Internal to compression/. Thread: any.

#ifndef SHOAL_COMPRESSION_DEVICE_IDLE_OBJECTS_H_
#define SHOAL_COMPRESSION_DEVICE_IDLE_OBJECTS_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace shoal::compression {

template <typename Object>
class IdleObjects {
 public:
  // One that nobody uses; null: all are in use.
  std::unique_ptr<Object> Take() {
    MutexLock lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<Object> taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void Give(std::unique_ptr<Object> object) {
    MutexLock lock(mutex_);
    idle_.push_back(std::move(object));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Object>> idle_ SHOAL_GUARDED_BY(mutex_);
};

// An object for the time of a call, after which its Settle() awaits what it left to be done.
template <typename Object>
class Borrowed {
 public:
  Borrowed(IdleObjects<Object>* from, std::unique_ptr<Object> object)
      : from_(from), object_(std::move(object)) {}
  Borrowed(Borrowed&&) noexcept = default;
  Borrowed& operator=(Borrowed&&) = delete;
  ~Borrowed() {
    if (object_ == nullptr) return;
    object_->Settle();
    from_->Give(std::move(object_));
  }
  Object* operator->() const { return object_.get(); }

 private:
  IdleObjects<Object>* from_;
  std::unique_ptr<Object> object_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_IDLE_OBJECTS_H_
