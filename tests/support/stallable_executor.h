// StallableExecutor: an executor of a process that can stand still: what its tasks and timers would
// do then, they do later, in order.

#ifndef SHOAL_TESTS_SUPPORT_STALLABLE_EXECUTOR_H_
#define SHOAL_TESTS_SUPPORT_STALLABLE_EXECUTOR_H_

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "common/executor.h"

namespace shoal::test_support {

// Thread: that of the world in which the executor inside lives.
class StallableExecutor final : public Executor {
 public:
  explicit StallableExecutor(std::unique_ptr<Executor> inside) : inside_(std::move(inside)) {}

  void Post(const char* name, std::function<void()> task) override {
    inside_->Post(name, [this, name, task = std::move(task)] { Run(name, 0, task); });
  }
  TimerId PostAfter(const char* name, Duration delay, std::function<void()> task) override {
    auto id = std::make_shared<TimerId>(0);
    *id = inside_->PostAfter(name, delay,
                             [this, name, id, task = std::move(task)] { Run(name, *id, task); });
    return *id;
  }
  void CancelTimer(TimerId timer) override {
    inside_->CancelTimer(timer);
    std::erase_if(parked_, [timer](const Parked& task) { return task.timer == timer; });
  }
  bool InThread() const override { return inside_->InThread(); }
  const Clock& clock() const override { return inside_->clock(); }

  void Stall() { stalled_ = true; }
  void GoOn() {
    stalled_ = false;
    for (Parked& task : std::exchange(parked_, {})) Post(task.name, std::move(task.run));
  }

 private:
  struct Parked {
    const char* name = nullptr;
    TimerId timer = 0;  // 0: none
    std::function<void()> run;
  };

  void Run(const char* name, TimerId timer, const std::function<void()>& task) {
    if (!stalled_) return task();
    parked_.push_back({name, timer, task});
  }

  const std::unique_ptr<Executor> inside_;
  bool stalled_ = false;
  std::deque<Parked> parked_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_STALLABLE_EXECUTOR_H_
