// Generation: the life of one StageRunner, for the objects that work in it. It has the tasks that
// end with it, the signs of progress and the operations that its watchdog looks at, and the way to
// end it. Thread: control.

#ifndef SHOAL_PIPELINE_CORE_GENERATION_H_
#define SHOAL_PIPELINE_CORE_GENERATION_H_

#include <functional>
#include <memory>
#include <utility>

#include "common/ids.h"
#include "common/status.h"
#include "common/task_scope.h"
#include "common/timeouts.h"
#include "pipeline/core/operation_watch.h"

namespace shoal::pipeline {

class Generation {
 public:
  // `peer` is null if no peer caused the failure.
  using OnFailed = std::function<void(const Status&, const PeerId* peer)>;

  // `control` outlives it.
  Generation(Executor* control, OnFailed on_failed,
             const Timeouts& timeouts = TimeoutsOf(kPeerTimeoutDefault))
      : control_(control),
        on_failed_(std::move(on_failed)),
        scope_(control),
        watch_(std::make_shared<OperationWatch>(
            &control->clock(),
            OperationWatch::Limits{timeouts.operation_least, timeouts.wait_least})) {}

  // Thread: any.
  const Executor& control() const { return *control_; }  // for asserts
  const Clock& clock() const { return control_->clock(); }
  const std::shared_ptr<OperationWatch>& watch() const { return watch_; }

  TaskScope& scope() {
    SHOAL_ASSERT_ON(*control_);
    return scope_;
  }
  bool ended() const {
    SHOAL_ASSERT_ON(*control_);
    return scope_.cancelled();
  }

  // Something came or was done, so that the watchdog waits again.
  void Progress() {
    SHOAL_ASSERT_ON(*control_);
    last_progress_ = clock().Now();
  }
  TimePoint last_progress() const {
    SHOAL_ASSERT_ON(*control_);
    return last_progress_;
  }

  // Calls `look` again and again, until it ends.
  void Every(Duration every, std::function<void()> look) {
    SHOAL_ASSERT_ON(*control_);
    scope_.PostAfter("generation.look", every, [this, every, look = std::move(look)] {
      look();
      Every(every, look);
    });
  }

  // No task of the scope begins any more, and none reports.
  void End() {
    SHOAL_ASSERT_ON(*control_);
    scope_.Cancel();
  }
  // Ends the generation and says why; only the first call counts.
  void Fail(const Status& status, const PeerId* peer = nullptr) {
    SHOAL_ASSERT_ON(*control_);
    if (ended()) return;
    scope_.Cancel();
    on_failed_(status, peer);
  }

 private:
  Executor* const control_;
  const OnFailed on_failed_;
  TaskScope scope_;
  const std::shared_ptr<OperationWatch> watch_;  // shared with tasks, which outlive this
  TimePoint last_progress_{};
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_GENERATION_H_
