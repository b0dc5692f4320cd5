// CheckpointUploads: who saves and uploads the checkpoints of a generation, and what follows where
// a member cannot. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_CHECKPOINT_UPLOADS_H_
#define SHOAL_SCHEDULER_SWARM_CHECKPOINT_UPLOADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/checkpoint_rounds.h"
#include "scheduler/steps/checkpoint_interval.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

// Takes the files that a member uploaded as its stage's part of a checkpoint that is under way.
// Invalid argument: one is missing. Aborted: another stage has another file of that name.
Status AddCheckpointFiles(const RunConfig& config, const Member& member,
                          const control::v1::CheckpointDone& done, CheckpointRounds* rounds);
// A checkpoint of `step` applied steps is whole: it is the run's newest.
void RecordCheckpoint(std::uint64_t step, const ArtefactMap& files, RunJournal* journal,
                      Reaction* reaction);

class CheckpointUploads {
 public:
  // All outlive it.
  CheckpointUploads(const RunConfig& config, const SwarmPlan& plan, RunJournal* journal,
                    Lifecycle* lifecycle, MemberFaults* faults, Reaction* reaction);

  // Of the newest plan, which resumes from the newest checkpoint.
  void BeginGeneration();
  void EndGeneration();

  // Steps applied at the newest checkpoint that was asked for, or resumed from.
  std::uint64_t asked() const { return rounds_.asked(); }
  bool pending() const { return rounds_.pending(); }
  // As many are under way as may be.
  bool full() const { return rounds_.full(); }
  // Whether this member of the plan uploads for its stage group, from the next checkpoint on.
  bool Uploads(const Member& member) const;
  void SetUploader(std::uint32_t stage, std::uint32_t pipeline);
  // The members save what they hold after the newest step.
  void Begin();
  // A step of the plan took so long.
  void AddStep(Duration step) { interval_.AddStep(step, rounds_.pending()); }
  // Steps from one checkpoint to the next, 1 or more: those of the run file, or what suits.
  std::uint64_t Every() const;

  // A pipeline has left the plan: others upload in the place of its members, and what these were
  // to upload is saved with the next step.
  void GoOnWithout(std::uint32_t pipeline);

  // A member of the plan has saved and uploaded its part, or failed to. True: with that the
  // checkpoint is whole, and the run's newest.
  bool OnDone(Member* member, const control::v1::CheckpointDone& done);
  // These members of a stage group hold wrong weights: checkpoints that they upload are dropped.
  // True: there were some.
  bool DropUploadedBy(std::uint32_t stage, const std::vector<std::uint32_t>& pipelines);

  // A member of the plan whose last checkpoint failed, for people; empty: there is none.
  std::string WhoCannotSave() const;

 private:
  std::optional<std::uint32_t> UploaderFor(std::uint32_t stage) const;
  bool AddFiles(const Member& member, const control::v1::CheckpointDone& done);
  bool OnFailed(Member* member, const control::v1::CheckpointDone& done);
  void OnUploadFailed(const Member& member, std::uint64_t step);
  bool CompleteIfWhole(std::uint64_t step);

  const RunConfig& config_;
  const SwarmPlan& plan_;
  RunJournal& journal_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  MemberFaults& faults_;
  Reaction& reaction_;
  CheckpointRounds rounds_;
  CheckpointInterval interval_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_CHECKPOINT_UPLOADS_H_
