// CheckpointSaver: saves stages to this machine's disk, and tells the scheduler.
//
// A save that has begun goes on, and is told, when its generation ends, its stage's host is
// replaced, or the scheduler is away: its files are as good as before, and others may have uploaded
// all else of the checkpoint.

#ifndef SHOAL_DAEMON_ARTEFACTS_CHECKPOINT_SAVER_H_
#define SHOAL_DAEMON_ARTEFACTS_CHECKPOINT_SAVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/ids.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

// Thread: control. Outlives its executors, whose tasks may know it.
class CheckpointSaver {
 public:
  // Thread of each: content and delta store on `store`, checkpoints on `compute`.
  struct Parts {
    Executor* control = nullptr;
    Executor* compute = nullptr;
    Executor* store = nullptr;
    storage::ContentStore* content = nullptr;
    storage::DeltaStore* deltas = nullptr;
    storage::CheckpointStore* checkpoints = nullptr;
  };
  using Tell = std::function<void(control::v1::PeerMessage)>;
  // `needed`: blobs that the peer's stage of that moment needs.
  CheckpointSaver(const Parts& parts, Tell tell,
                  std::function<std::vector<storage::ContentHash>()> needed);

  struct Order {
    RunId run{0};
    std::uint64_t generation = 0;
    std::uint64_t step = 0;  // applied ones
    int keep = 1;            // checkpoints of the run
    // Writes the stage's files to a folder. Thread: compute, where it is also destroyed.
    std::function<Status(const std::string& folder)> write;
    std::vector<storage::ContentHash> blobs;  // that stay beside what is saved
    // Called once all is written, or could not be; calls its argument when the scheduler may hear
    // of it, now or later. Null: at once.
    std::function<void(std::function<void()>)> written;
    std::function<void(bool saved)> told;  // may be null
  };
  void Save(Order order);
  // Nothing is told or linked any more: executors are about to end.
  void Close() {
    SHOAL_ASSERT_ON(*parts_.control);
    closed_ = true;
  }
  // Tells that there is nothing to be saved.
  void Fail(const Order& order, const Status& status);
  // What went well of this run is told again to a scheduler that may not have heard it; it leaves
  // out what it knows, or does not need.
  void TellAgain(RunId run);
  // The run goes back to a checkpoint: nobody asks for what was saved after it.
  void Forget() {
    SHOAL_ASSERT_ON(*parts_.control);
    told_.clear();
  }

  // Of the newest checkpoint.
  const std::vector<storage::ContentHash>& blobs() const {
    SHOAL_ASSERT_ON(*parts_.control);
    return newest_;
  }

 private:
  struct Saved {
    std::vector<storage::ArtefactRef> files;
    std::vector<std::string> paths;
    std::vector<RunId> runs;  // that have checkpoints here
  };
  using Outcome = Result<std::shared_ptr<Saved>>;
  static Outcome Write(storage::CheckpointStore* checkpoints, const Order& order);
  void OnWritten(const std::shared_ptr<Order>& order, const Outcome& saved);
  void Link(const std::shared_ptr<Order>& order, const std::shared_ptr<Saved>& saved);
  void OnLinked(const Order& order, const Saved& saved, const Status& status);

  const Parts parts_;
  const Tell tell_;
  const std::function<std::vector<storage::ContentHash>()> needed_;
  std::vector<storage::ContentHash> newest_;
  bool closed_ = false;
  struct Told {
    RunId run{0};
    control::v1::PeerMessage message;
  };
  std::deque<Told> told_;  // of saves that went well, the newest last
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_CHECKPOINT_SAVER_H_
