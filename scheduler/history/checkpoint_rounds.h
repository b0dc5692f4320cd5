// CheckpointRounds: the checkpoints of a generation that are under way: who uploads for each stage,
// and who has reported. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_CHECKPOINT_ROUNDS_H_
#define SHOAL_SCHEDULER_HISTORY_CHECKPOINT_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/history/artefact_map.h"

namespace shoal::scheduler {

class CheckpointRounds {
 public:
  // A new generation resumes from the checkpoint of `step`; `uploaders`: by stage, the pipeline
  // whose member uploads for the stage group.
  void Reset(std::uint64_t step, std::vector<std::uint32_t> uploaders);
  // The generation has ended: nothing is under way.
  void Clear() { rounds_.clear(); }

  std::uint32_t uploader(std::uint32_t stage) const { return uploaders_[stage]; }
  // From the next checkpoint on.
  void SetUploader(std::uint32_t stage, std::uint32_t pipeline) { uploaders_[stage] = pipeline; }

  // Steps applied at the newest checkpoint that was asked for, or resumed from.
  std::uint64_t asked() const { return asked_; }
  // The next step is to be saved, whatever was asked for before: back to that of `step`.
  void AskAgainAfter(std::uint64_t step) { asked_ = step; }
  bool pending() const { return !rounds_.empty(); }
  bool full() const;
  // A checkpoint of `step` applied steps begins, of which so many members report; where too many
  // are under way, the oldest ends.
  void Begin(std::uint64_t step, std::size_t members);

  bool Has(std::uint64_t step) const { return rounds_.contains(step); }
  // Whether this member uploads for its stage in that checkpoint, which is under way.
  bool Uploads(std::uint64_t step, std::uint32_t pipeline, std::uint32_t stage) const;
  // False: the checkpoint has another one of this name, which stays.
  bool AddFile(std::uint64_t step, const std::string& name, const control::v1::ArtefactRef& file);
  void AddReport(std::uint64_t step, std::uint32_t pipeline, std::uint32_t stage);
  // The files of the checkpoint, if its members have reported; it and all before it end then.
  std::optional<ArtefactMap> TakeWhole(std::uint64_t step);
  void Drop(std::uint64_t step) { rounds_.erase(step); }
  // The members of a pipeline are gone: checkpoints in which one of them uploads end, the others
  // do without their reports. True: some ended.
  bool GoOnWithout(std::uint32_t pipeline);
  // Those in which one of these pipelines uploads for the stage. True: there were some.
  bool DropUploadedBy(std::uint32_t stage, const std::vector<std::uint32_t>& pipelines);

 private:
  struct Round {
    std::vector<std::uint32_t> uploaders;                        // by stage
    std::set<std::pair<std::uint32_t, std::uint32_t>> reported;  // pipeline, stage
    ArtefactMap files;
    std::size_t members = 0;
  };
  std::map<std::uint64_t, Round> rounds_;  // by steps applied
  std::vector<std::uint32_t> uploaders_;   // by stage
  std::uint64_t asked_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_CHECKPOINT_ROUNDS_H_
