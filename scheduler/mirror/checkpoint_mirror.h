// CheckpointMirror: copies complete checkpoints into an object store in the background, the newest
// only, and tries again when that fails. The run never waits for it.
//
// Thread: control. It has a thread of its own, "mirror", that blocks on the store.

#ifndef SHOAL_SCHEDULER_MIRROR_CHECKPOINT_MIRROR_H_
#define SHOAL_SCHEDULER_MIRROR_CHECKPOINT_MIRROR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/executor.h"
#include "common/ids.h"
#include "common/status.h"
#include "net/objects/object_store.h"
#include "scheduler/mirror/checkpoint_upload.h"
#include "scheduler/mirror/mirror_state.h"

namespace shoal::scheduler {

class CheckpointMirror {
 public:
  // `stop` is that of the store. `upload`, an executor of the mirror's own, blocks on the store;
  // `control` outlives it. `release` is told of each copy whose files are not needed any more.
  CheckpointMirror(std::unique_ptr<net::ObjectStore> store, std::stop_source stop,
                   std::unique_ptr<Executor> upload, Executor* control,
                   std::function<void(const CheckpointCopy&)> release);
  ~CheckpointMirror();

  // Finds out, in the background, whether the store can be used.
  void Probe(const RunId& run, std::uint64_t generation);
  // A newer checkpoint is complete; one that still waits is given up for it.
  void Offer(std::shared_ptr<const CheckpointCopy> copy);
  // One is complete, but cannot be copied: its files are not here.
  void NoteFailure(const Status& status);
  MirrorView view() const;

  // Ends what is on its way, which may take a second; what was posted to control before still runs.
  // Thread: any but its own, while nobody else calls it.
  void Stop();

 private:
  void Enter(MirrorEvent event);
  void Upload();
  void Done(const std::shared_ptr<const CheckpointCopy>& copy,
            const CheckpointUpload::Outcome& outcome);
  void Drop(std::shared_ptr<const CheckpointCopy> copy);

  Executor& control_;
  const std::unique_ptr<net::ObjectStore> store_;
  std::stop_source stop_;
  const std::function<void(const CheckpointCopy&)> release_;
  CheckpointUpload uploads_;  // mirror
  std::shared_ptr<const CheckpointCopy> next_;
  Duration pause_;
  MirrorView view_;
  std::unique_ptr<Executor> upload_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MIRROR_CHECKPOINT_MIRROR_H_
