#include "common/parallel_for.h"

#include <algorithm>
#include <memory>

#include "common/mutex.h"

namespace shoal {
namespace {

// Tasks that look for slices; more than an executor has threads do no harm.
constexpr std::size_t kHelpersMax = 64;

// Shared with the helpers, of which some may begin when the caller has long gone on.
class Slices {
 public:
  Slices(std::size_t count, const std::function<void(std::size_t)>* work)
      : count_(count), work_(work) {}

  // `work_` is looked at only between a Begin that gave a slice and its End, while the caller
  // waits.
  void Take() {
    for (std::size_t slice = 0; Begin(&slice); End()) (*work_)(slice);
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (ended_ < count_) all_ended_.Wait(mutex_);
  }

 private:
  bool Begin(std::size_t* slice) {
    MutexLock lock(mutex_);
    *slice = begun_;
    return begun_ < count_ && ++begun_ > 0;
  }
  void End() {
    MutexLock lock(mutex_);
    if (++ended_ == count_) all_ended_.NotifyAll();
  }

  const std::size_t count_;
  const std::function<void(std::size_t)>* const work_;
  Mutex mutex_;
  ConditionVariable all_ended_;
  std::size_t begun_ SHOAL_GUARDED_BY(mutex_) = 0, ended_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void ParallelFor(Executor* helpers, const char* name, std::size_t slices,
                 const std::function<void(std::size_t)>& work) {
  const auto shared = std::make_shared<Slices>(slices, &work);
  for (std::size_t i = 1; helpers != nullptr && i < std::min(slices, kHelpersMax); ++i) {
    helpers->Post(name, [shared] { shared->Take(); });
  }
  shared->Take();
  shared->Wait();
}

}  // namespace shoal
