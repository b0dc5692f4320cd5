// ClosingCheckpoint: the checkpoint with which a generation ends that lost a member.
//
// The members that still hold its last step save it, one of each stage uploads it, and the next
// generation goes on from there. Not where to save would take longer than to train the steps again.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_CLOSING_CHECKPOINT_H_
#define SHOAL_SCHEDULER_SWARM_CLOSING_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/history/checkpoint_rounds.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class ClosingCheckpoint {
 public:
  // All outlive it. `initial`: artefacts of the fresh model.
  ClosingCheckpoint(const RunConfig& config, const ArtefactMap& initial, const SwarmPlan& plan,
                    RunJournal* journal, Lifecycle* lifecycle, Reaction* reaction);

  // Members of the newest plan hold `step` applied steps, at least one of every stage. False: to
  // save them would take longer than to train them again. `step_seconds`: of a step; 0: not known.
  bool Begin(std::uint64_t step, double step_seconds);
  // What a member is told, if it is to save.
  void Fill(const Member& member, control::v1::Abort* abort) const;
  bool saving() const { return step_ > 0; }

  // A member's part is saved and uploaded, or not.
  void OnDone(const Member& member, const control::v1::CheckpointDone& done);
  // With any event: somebody may have gone, or it takes too long.
  void Look();

 private:
  struct Holder {
    PeerId peer;
    std::uint32_t pipeline = 0, stage = 0;
    bool failed = false;
  };

  const Member* At(const Holder& holder) const;
  std::optional<std::size_t> BestOf(std::uint32_t stage) const;
  bool Choose();
  double SecondsToSave() const;
  void Replace(std::uint32_t stage);
  void End(const std::string& trouble);

  const RunConfig& config_;
  const ArtefactMap& initial_;
  const SwarmPlan& plan_;
  RunJournal& journal_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  Reaction& reaction_;
  std::uint64_t step_ = 0;  // applied ones that are being saved; 0: none
  TimePoint until_{};
  std::vector<Holder> holders_;
  std::vector<std::size_t> uploaders_;  // by stage: of the holders
  std::vector<bool> uploaded_;          // by stage
  CheckpointRounds rounds_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_CLOSING_CHECKPOINT_H_
