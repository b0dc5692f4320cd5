#include "scheduler/mirror/checkpoint_mirror.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/log.h"

namespace shoal::scheduler {
namespace {

// Between two tries of a checkpoint, beside those of each request.
constexpr Duration kFirstPause = std::chrono::seconds(10);
constexpr Duration kLongestPause = std::chrono::minutes(10);

}  // namespace

CheckpointMirror::CheckpointMirror(std::unique_ptr<net::ObjectStore> store, std::stop_source stop,
                                   std::unique_ptr<Executor> upload, Executor* control,
                                   std::function<void(const CheckpointCopy&)> release)
    : control_(*control),
      store_(std::move(store)),
      stop_(std::move(stop)),
      release_(std::move(release)),
      uploads_(store_.get()),
      pause_(kFirstPause),
      upload_(std::move(upload)) {
  view_.address = store_->address();
}

CheckpointMirror::~CheckpointMirror() { Stop(); }

void CheckpointMirror::Stop() {
  stop_.request_stop();
  upload_.reset();
}

MirrorView CheckpointMirror::view() const {
  SHOAL_ASSERT_ON(control_);
  return view_;
}

void CheckpointMirror::Enter(MirrorEvent event) {
  if (const auto next = NextMirrorState(view_.state, event)) view_.state = *next;
}

void CheckpointMirror::Probe(const RunId& run, std::uint64_t generation) {
  SHOAL_ASSERT_ON(control_);
  upload_->Post("mirror.probe", [this, run, generation] {
    const Status status = uploads_.Check(run, generation);
    if (status.ok() || status.code() == StatusCode::kCancelled) return;
    control_.Post("mirror.probed", [this, status] { NoteFailure(status); });
  });
}

void CheckpointMirror::NoteFailure(const Status& status) {
  SHOAL_ASSERT_ON(control_);
  ++view_.failures;
  view_.last_failure = status.message();
  SHOAL_LOG(kWarning, "scheduler", "mirror.failed", {"store", view_.address},
            {"error", status.message()});
}

void CheckpointMirror::Drop(std::shared_ptr<const CheckpointCopy> copy) {
  if (copy != nullptr) release_(*copy);
}

void CheckpointMirror::Offer(std::shared_ptr<const CheckpointCopy> copy) {
  SHOAL_ASSERT_ON(control_);
  Drop(std::exchange(next_, std::move(copy)));
  view_.pending_step = next_->run.step;
  if (view_.state != MirrorState::kIdle) return;  // it comes when that is over
  Enter(MirrorEvent::kOffered);
  Upload();
}

void CheckpointMirror::Upload() {
  std::shared_ptr<const CheckpointCopy> copy = std::exchange(next_, nullptr);
  upload_->Post("mirror.upload", [this, copy = std::move(copy)] {
    const CheckpointUpload::Outcome outcome = uploads_.Store(*copy);
    control_.Post("mirror.done", [this, copy, outcome] { Done(copy, outcome); });
  });
}

void CheckpointMirror::Done(const std::shared_ptr<const CheckpointCopy>& copy,
                            const CheckpointUpload::Outcome& outcome) {
  SHOAL_ASSERT_ON(control_);
  view_.sent_bytes += outcome.sent_bytes;
  if (stop_.stop_requested()) return Drop(copy);
  if (outcome.stored) {
    view_.stored_step = copy->run.step;
    SHOAL_LOG(kInfo, "scheduler", "mirror.stored", {"step", copy->run.step},
              {"store", view_.address}, {"bytes", outcome.sent_bytes});
  }
  if (outcome.status.ok()) {
    view_.last_failure.clear();
    pause_ = kFirstPause;
    Drop(copy);
    Enter(MirrorEvent::kStored);
    view_.pending_step.reset();
    if (next_ == nullptr) return;
    view_.pending_step = next_->run.step;
    Enter(MirrorEvent::kOffered);
    return Upload();
  }
  NoteFailure(outcome.status);
  // A newer one takes its place.
  if (next_ == nullptr) {
    next_ = copy;
  } else {
    Drop(copy);
  }
  Enter(MirrorEvent::kFailed);
  control_.PostAfter("mirror.retry", pause_, [this] {
    if (stop_.stop_requested()) return;
    Enter(MirrorEvent::kRetry);
    Upload();
  });
  pause_ = std::min<Duration>(2 * pause_, kLongestPause);
}

}  // namespace shoal::scheduler
