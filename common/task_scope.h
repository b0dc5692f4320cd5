// TaskScope: work posted to other threads whose results come back to control, unless the scope has
// ended meanwhile.
//
// A task owns what it works on (moved or shared), never a pointer into the scope's owner, so that
// the owner may be destroyed at any moment. The result handler runs on control only while the scope
// lives, and so may use the owner.

#ifndef SHOAL_COMMON_TASK_SCOPE_H_
#define SHOAL_COMMON_TASK_SCOPE_H_

#include <atomic>
#include <memory>
#include <utility>

#include "common/executor.h"

namespace shoal {

// Thread: control.
class TaskScope {
 public:
  explicit TaskScope(Executor* control) : control_(control) {}
  ~TaskScope() { *cancelled_ = true; }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

  // Tasks that have not begun will not; no result handler runs any more.
  void Cancel() {
    SHOAL_ASSERT_ON(*control_);
    *cancelled_ = true;
  }
  bool cancelled() const {
    SHOAL_ASSERT_ON(*control_);
    return *cancelled_;
  }
  // For work that is posted otherwise: true from Cancel() on. Thread: any.
  std::shared_ptr<const std::atomic<bool>> token() const { return cancelled_; }

  // Runs `work()` on `where`, then `done(result)` on control. `name` is a string literal.
  template <typename Work, typename Done>
  void Run(Executor* where, const char* name, Work work, Done done) {
    SHOAL_ASSERT_ON(*control_);
    Post(where, name, std::move(work), std::move(done), false);
  }
  // The same, and `work` runs even if the scope has ended: what it does outlives the scope's owner.
  template <typename Work, typename Done>
  void RunToEnd(Executor* where, const char* name, Work work, Done done) {
    SHOAL_ASSERT_ON(*control_);
    Post(where, name, std::move(work), std::move(done), true);
  }

  // Runs `task` on control, after what is there already, or once `delay` has passed.
  template <typename Task>
  void Post(const char* name, Task task) {
    SHOAL_ASSERT_ON(*control_);
    control_->Post(name, [cancelled = cancelled_, task = std::move(task)] {
      if (!*cancelled) task();
    });
  }
  template <typename Task>
  TimerId PostAfter(const char* name, Duration delay, Task task) {
    SHOAL_ASSERT_ON(*control_);
    return control_->PostAfter(name, delay, [cancelled = cancelled_, task = std::move(task)] {
      if (!*cancelled) task();
    });
  }

 private:
  template <typename Work, typename Done>
  void Post(Executor* where, const char* name, Work work, Done done, bool to_end) {
    struct Task {
      Work work;
      Done done;
    };
    // Shared, because std::function must be copyable and tasks own move-only buffers.
    auto task = std::make_shared<Task>(Task{std::move(work), std::move(done)});
    where->Post(name, [name, task, control = control_, cancelled = cancelled_, to_end] {
      if (*cancelled && !to_end) return;
      auto result = std::make_shared<decltype(task->work())>(task->work());
      control->Post(name, [task, result, cancelled] {
        if (!*cancelled) task->done(std::move(*result));
      });
    });
  }

  Executor* const control_;
  // Shared with every task, because tasks outlive the scope.
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace shoal

#endif  // SHOAL_COMMON_TASK_SCOPE_H_
