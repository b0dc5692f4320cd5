// What the server does to copy checkpoints into the store of run.toml.

#include <memory>
#include <stop_token>
#include <utility>

#include "scheduler/server/checkpoint_copies.h"
#include "scheduler/server/server.h"
#include "scheduler/server/store_access.h"

namespace shoal::scheduler {

Result<SchedulerServer::Store> SchedulerServer::OpenStore(const StoreAccess& access) const {
  Store store;
  // A run that only measures has nothing to outlive its machine for.
  if (config_.store.empty() || config_.without_weights) return store;
  auto objects = OpenStoreOf(config_, access, store.stop.get_token());
  if (!objects.ok()) return objects.status().WithContext("[checkpoint] store");
  store.objects = *std::move(objects);
  return store;
}

void SchedulerServer::StartMirror(Store store) {
  if (store.objects == nullptr) return;
  OnControl([&] {
    mirror_ = std::make_unique<CheckpointMirror>(
        std::move(store.objects), store.stop, NewThreadExecutor("mirror"), control_.get(),
        [this](const CheckpointCopy& copy) { Release(copy); });
    mirror_->Probe(config_.run, state_->View(SystemClock().Now()).generation);
    Mirror();  // what was under way when the scheduler ended
  });
}

void SchedulerServer::Mirror() {
  SHOAL_ASSERT_ON(*control_);
  const RunView view = state_->View(SystemClock().Now());
  if (!mirror_ || stopping_ || view.checkpoint_step == 0) return;
  StoredRun run;
  run.run = config_.run;
  run.generation = view.generation;
  run.step = view.checkpoint_step;
  run.config = FormatRunConfig(config_);
  run.initial = FilesOf(artefacts_.initial);
  run.checkpoint = FilesOf(state_->CurrentWeights());
  // Behind the event of the checkpoint, which the store has then.
  store_->Post("mirror.copy", [this, run = std::move(run)]() mutable {
    auto made = MakeCheckpointCopy(config_.directory, std::move(run), disk_.get());
    const Status status = made.status();
    std::shared_ptr<const CheckpointCopy> copy;
    if (made.ok()) copy = std::make_shared<const CheckpointCopy>(*std::move(made));
    control_->Post("mirror.offer", [this, copy, status] {
      if (stopping_) return;
      if (copy) return mirror_->Offer(copy);
      mirror_->NoteFailure(status.WithContext("the checkpoint cannot be copied"));
    });
  });
}

void SchedulerServer::Release(const CheckpointCopy& copy) {
  SHOAL_ASSERT_ON(*control_);
  if (stopping_) return;
  store_->Post("mirror.release", [this, hashes = FilesToPin(copy.run)] { disk_->Unpin(hashes); });
}

}  // namespace shoal::scheduler
