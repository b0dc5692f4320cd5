// BoundaryCache: the m of one end (boundary and side) during a run. It prefetches m, stages the m'
// of the running step and commits it behind the step, in agreement with the other end.
//
// Prefetch: once a step is planned, its micro-batches are read, in order and while there is room.
// Samples of an earlier step that is not committed yet are read after that commit. So a step waits
// neither for the store nor for the commit of the step before it.
//
// Committing, one step after the other, at both ends:
//   staged --Apply--> queued --store--> stored, own losses told --theirs came--> settled, checksum
// Only after that does the next commit begin. So both ends compute the checksum of a step over the
// same samples, though each may lose others (quota, damage, full disk). Images go to the store as
// soon as they are staged, all through the step; a commit has headers only.
// All store calls are posted to the store executor in order. Thread: control.
//
// What is kept, and counted, are segments of samples (segments.h): a SegmentId names one, here and
// in inventories and losses; a segment of a micro-batch is a transfer.
//
// The residual of gradients (BoundarySide::kResidual) goes the same way, but has no other end:
// nothing to agree on, no losses to tell or to wait for. Below, "m" means it, too.

#ifndef SHOAL_PIPELINE_BOUNDARY_BOUNDARY_CACHE_H_
#define SHOAL_PIPELINE_BOUNDARY_BOUNDARY_CACHE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/core/segments.h"
#include "storage/delta/delta_store.h"

namespace shoal::pipeline {

// An m image made by a codec, with its checksum.
struct MImage {
  std::uint32_t position = 0;  // of the sample in its micro-batch
  Buffer image;
  std::uint64_t checksum = 0;
};

class BoundaryCache {
 public:
  // Per sample of a micro-batch, in its order: its m, or nothing (then a first visit).
  using Records = std::vector<std::optional<storage::DeltaRecord>>;
  using Inventory = std::vector<storage::DeltaInventoryEntry>;

  using Codec = std::shared_ptr<const compression::MessageCodec>;

  // What it keeps. Constant for a generation.
  struct Config {
    storage::BoundaryEnd end;
    Codec codec;  // makes and checks the images of `segments`
    Segments segments;
    std::uint32_t micro_batch_rows = 1;
    std::uint64_t prefetch_bytes = 0;  // of images read ahead; one micro-batch at least
    std::uint64_t first_step = 0;
  };
  // What it works with. All outlive it, the stores also the tasks that it posted.
  struct Resources {
    Generation* generation = nullptr;
    Executor* store = nullptr;
    storage::DeltaStore* delta_store = nullptr;  // store thread only
    TransferStats* stats = nullptr;
  };

  BoundaryCache(Config config, const Resources& resources)
      : config_(std::move(config)),
        resources_(resources),
        generation_(resources.generation),
        agreed_(!shared()),
        their_next_(config_.first_step) {}

  void ReadInventory(std::function<void(Inventory)> done);
  // Forgets all of `own` that `theirs` does not confirm.
  void Agree(Inventory own, Inventory theirs, std::function<void()> done);

  // What a later step will ask for; steps in order, before it starts.
  void PlanPrefetch(const StepPlan& plan);
  // A planned step has these micro-batches; m of those that are new is read when it is asked for.
  void ExtendPlan(const StepPlan& plan);
  // The m of a segment of a micro-batch, at once if it was read ahead.
  void Prefetch(MicroBatchId id, std::uint32_t segment, const std::vector<SampleId>& samples,
                std::function<void(Records)> done);

  // Stages the m' of a segment of one sample of the running step. If a sample is in several
  // micro-batches, the last one counts on both ends, whatever order codecs finish in.
  void Stage(MicroBatchId id, std::uint32_t segment, SampleId sample, MImage image);
  void DropStaged();
  struct CommitHandlers {
    // Segments that have no m on this end any more: the other end must be told.
    std::function<void(std::vector<SegmentId>)> on_stored;
    std::function<void(BoundaryChecksum)> on_settled;
  };
  // Staged m' become m of version step + 1.
  void Commit(std::uint64_t step, CommitHandlers handlers);
  // The other end's losses at its commit of `step`, which may be ahead of ours. Each step once, in
  // order; anything else is its fault.
  Status OnTheirLosses(std::uint64_t step, std::vector<SegmentId> ids);

 private:
  using Order = std::pair<std::uint32_t, std::uint32_t>;  // transfer, position
  enum class ReadState : std::uint8_t { kLater, kReading, kRead };
  // A transfer whose m is being read.
  struct Wanted {
    std::vector<SegmentId> ids;
    std::vector<ReadState> states;
    Records records;
    std::size_t left = 0;               // not kRead
    std::function<void(Records)> done;  // null: a prefetch
  };
  using WantedKey = std::pair<std::uint64_t, std::uint32_t>;  // step, transfer
  struct StoreWrite {
    Status status;
    std::vector<SegmentId> lost;
    double ms = 0;
  };
  struct Committing {
    std::uint64_t step = 0;
    std::uint64_t records = 0;
    CommitHandlers handlers;
    bool begun = false, stored = false;
  };

  bool shared() const { return config_.end.side != storage::BoundarySide::kResidual; }
  bool Blocked(std::uint64_t step, SegmentId id) const;
  std::size_t PrefetchRoom() const;  // transfers that may be opened ahead
  Wanted& Open(WantedKey key, std::vector<SegmentId> ids);
  void OpenPrefetches();
  void IssueReads(WantedKey key, Wanted* wanted);
  void OnRead(WantedKey key, const std::vector<std::size_t>& positions, Records records);
  void Finish(WantedKey key);
  void Forget(const std::vector<SegmentId>& ids, std::uint64_t version);
  bool OnWritten(const StoreWrite& written);
  void PumpCommits();
  void PostCommit(Committing* commit);
  void Committed(std::vector<SegmentId> lost);
  void PostSettle();

  const Config config_;
  const Resources resources_;
  Generation* const generation_;
  std::map<SegmentId, Order> staged_;  // the store has the images
  std::uint64_t staged_version_ = 0;

  std::deque<std::pair<WantedKey, std::vector<SegmentId>>> planned_;  // not opened yet
  std::map<WantedKey, Wanted> wanted_;
  std::size_t ahead_ = 0;                                     // of wanted_, without `done`
  std::map<std::uint64_t, std::set<SegmentId>> uncommitted_;  // by step: planned, commit not posted
  bool agreed_;              // the store holds what both ends have: reading may begin
  std::size_t reading_ = 0;  // tasks
  std::map<SegmentId, std::uint64_t> forgotten_;  // while something is read: up to which version

  std::deque<Committing> commits_;
  std::map<std::uint64_t, std::vector<SegmentId>> theirs_;  // by step
  std::uint64_t their_next_ = 0;                            // step
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_BOUNDARY_CACHE_H_
