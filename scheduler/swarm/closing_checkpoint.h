// ClosingCheckpoint: the checkpoint with which a generation ends that lost a member.
//
// The members that still hold its last step save it and share its upload out, and the next
// generation goes on from there. Not where to save would take longer than to train the steps again.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_CLOSING_CHECKPOINT_H_
#define SHOAL_SCHEDULER_SWARM_CLOSING_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/swarm/checkpoint_uploads.h"
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
                    const RunHistory& history, Lifecycle* lifecycle, CheckpointUploads* uploads,
                    const Reaction& reaction);

  // Members of the newest plan hold `step` applied steps, at least one of every stage. False: to
  // save them would take longer than to train them again. `step_seconds`: of a step; 0: not known.
  bool Begin(std::uint64_t step, double step_seconds);
  // What a member is told, if it is to save.
  void Fill(const Member& member, control::v1::Abort* abort) const;
  bool saving() const { return step_ > 0; }
  // With any event: it may be whole, somebody may have gone, or it takes too long.
  void Look();

 private:
  std::vector<const Member*> HoldersIn(std::uint32_t pipeline, std::uint64_t step) const;
  // `rates_bps`: of the holders of each stage together, as far as they are known.
  double SecondsToSave(std::vector<double> rates_bps, double unknown_bps) const;
  void End(const std::string& trouble);

  const RunConfig& config_;
  const ArtefactMap& initial_;
  const SwarmPlan& plan_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  CheckpointUploads& uploads_;
  const Reaction& reaction_;
  std::uint64_t step_ = 0;  // applied ones that are being saved; 0: none
  TimePoint until_{};
  std::vector<CheckpointRounds::Saver> holders_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_CLOSING_CHECKPOINT_H_
