// DeltaStage: the m of one place (boundary and side) during a run: read ahead per micro-batch,
// the m' of the running step staged, committed at Apply (DESIGN section 6).
//
// All store calls are posted to the store executor in order, so that a read posted after a commit
// sees it. Thread: control.

#ifndef SHOAL_PIPELINE_DELTA_STAGE_H_
#define SHOAL_PIPELINE_DELTA_STAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/runner_core.h"
#include "storage/delta_store.h"

namespace shoal::pipeline {

// An m image made by a codec, with its checksum.
struct MImage {
  std::uint32_t position = 0;  // of the sample in its micro-batch
  Buffer image;
  std::uint64_t checksum = 0;
};

class DeltaStage {
 public:
  // Per sample of a micro-batch, in its order: its m, or nothing (then a first visit).
  using Records = std::vector<std::optional<storage::DeltaRecord>>;
  using Inventory = std::vector<storage::DeltaInventoryEntry>;

  DeltaStage(RunnerCore* core, storage::DeltaPlace place) : core_(core), place_(place) {}

  void ReadInventory(std::function<void(Inventory)> done);
  // Forgets all of `own` that `theirs` does not confirm.
  void Agree(Inventory own, Inventory theirs, std::function<void()> done);

  void Prefetch(MicroBatchId id, std::vector<SampleId> samples, std::function<void(Records)> done);

  // Stages the m' of one sample of the running step. If a sample is in several micro-batches, the
  // last one counts on both ends, whatever order codecs finish in.
  void Stage(MicroBatchId id, SampleId sample, MImage image);
  void DropStaged() { staged_.clear(); }
  // Staged m' become m of version step + 1; then `done` gets the checksum of the place and the
  // samples that lost their m to the quota.
  void Commit(std::uint64_t step,
              std::function<void(PlaceChecksum, std::vector<SampleId> evicted)> done);
  // Forgets m of samples that the other end no longer has.
  void Drop(std::vector<SampleId> samples);

 private:
  struct Staged {
    std::pair<std::uint32_t, std::uint32_t> order;  // micro-batch, position
    MImage image;
  };

  RunnerCore* const core_;
  const storage::DeltaPlace place_;
  std::map<SampleId, Staged> staged_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_DELTA_STAGE_H_
