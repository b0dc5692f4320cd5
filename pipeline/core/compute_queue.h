// ComputeQueue: a stage's operations on its compute thread, one at a time, the next one at hand.
//
// What comes next is chosen on control while an operation runs, and offered: compute then goes on
// without waiting for control, which hears of it afterwards. An offer may be changed for a better
// one until compute has taken it.
// Thread: control; operations run on `compute`.

#ifndef SHOAL_PIPELINE_CORE_COMPUTE_QUEUE_H_
#define SHOAL_PIPELINE_CORE_COMPUTE_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/executor.h"
#include "common/mutex.h"
#include "common/task_scope.h"

namespace shoal::pipeline {

enum class PartEnd : std::uint8_t {
  kMore,    // parts are left
  kOver,    // that was all
  kFailed,  // and nothing may follow
};

// What it works on, it owns: it outlives the queue.
struct Operation {
  const char* name = "";  // a string literal
  // Runs a part. Thread: compute.
  std::function<PartEnd()> run;
  // If set, each part waits until it calls what it is given. Thread: control, as the call.
  std::function<void(std::function<void()>)> before = nullptr;
  // After the last part, or before an urgent offer. `followed`: what was offered has begun, or
  // waits in its own `before`, which is called after this.
  std::function<void(bool followed)> ended;
};

class ComputeQueue {
 public:
  // `scope` ends the queue with all its operations; it and the executors outlive it.
  ComputeQueue(Executor* control, Executor* compute, const TaskScope& scope);

  // Only while nothing runs.
  void Start(std::shared_ptr<Operation> operation);
  // What begins when the running operation is over, or, if `urgent`, as soon as a part of it is.
  // Takes the place of an earlier offer (null: takes it back). False if that offer has begun:
  // nothing changes, and the running operation's `ended` is on its way.
  bool Offer(std::shared_ptr<Operation> operation, bool urgent);

 private:
  // What both threads see; tasks on either outlive the queue.
  struct Shared {
    Executor* control;
    Executor* compute;
    std::shared_ptr<const std::atomic<bool>> cancelled;
    bool offered = false;  // control's: an offer was made, and it is not known to have begun
    Mutex mutex;
    std::shared_ptr<Operation> offer SHOAL_GUARDED_BY(mutex);
    bool urgent SHOAL_GUARDED_BY(mutex) = false;
  };

  // Thread: control or compute; control only for an operation that has a `before`.
  static void PostPart(const std::shared_ptr<Shared>& shared,
                       const std::shared_ptr<Operation>& operation);
  static void RunPart(const std::shared_ptr<Shared>& shared,
                      const std::shared_ptr<Operation>& operation);

  // Tells control how a part ended, where compute itself cannot go on.
  static void PartEnded(const std::shared_ptr<Shared>& shared,
                        const std::shared_ptr<Operation>& operation, PartEnd end,
                        std::shared_ptr<Operation> next);

  // Takes the offer, if it may begin where a part ended so.
  static std::shared_ptr<Operation> Follow(Shared* shared, PartEnd end);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_COMPUTE_QUEUE_H_
