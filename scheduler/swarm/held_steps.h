// HeldSteps: what members still hold of the steps of a generation that ended, and so what becomes
// of those that no checkpoint has.
//
// Members keep their stage in memory when a generation ends, and when the scheduler is gone. If all
// positions are held, the next generation goes on in place: nobody loads or sends anything. If at
// least every stage is, it does so, too, where the replica method lets members come and go; else
// the holders save a closing checkpoint. If not, peers get a moment to come back; then the run goes
// back to its last checkpoint. Where pipelines differ between checkpoints, those that are whole go
// on, or none.
//
// A scheduler that was started again goes on with the generation itself, whatever the method, if
// all members still do. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_HELD_STEPS_H_
#define SHOAL_SCHEDULER_SWARM_HELD_STEPS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/plan/regroup.h"
#include "scheduler/swarm/closing_checkpoint.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class HeldSteps {
 public:
  // All outlive it. `in_place`: members may come and go between two steps.
  HeldSteps(const RunConfig& config, Members* members, SwarmPlan* plan, RunJournal* journal,
            Lifecycle* lifecycle, ClosingCheckpoint* closing, bool in_place, Reaction* reaction);

  // A generation was begun before the scheduler was started again.
  void Restored() { restored_ = true; }
  // The generation of the newest plan has ended. `step_seconds`: of a step; 0: not known.
  StepsFate Begin(const Keep& keep, double step_seconds);
  // What a member is told with that.
  void Fill(const Member& member, control::v1::Abort* abort) const;
  // The newest step was ordered to be applied so.
  void NoteApply(const control::v1::Apply& apply) { last_apply_ = apply; }
  // With any event: somebody may have come or gone.
  void Look();

  // After a restart: where all members of the newest plan are, if its generation has not ended;
  // said once, and adopted. The caller goes on with it.
  struct InProgress {
    std::uint64_t step = 0;                          // that they are at
    std::uint64_t planned = 0;                       // they have the plans of the steps before
    std::optional<control::v1::Reduce> reduce = {};  // of the step, if one of them has heard it
  };
  std::optional<InProgress> TakeInProgress() { return std::exchange(in_progress_, std::nullopt); }

  // The last generation has ended with a checkpoint from which more pipelines are to train.
  bool grows() const { return grows_; }
  // Members of the newest plan with which a generation can go on in place; none: it cannot.
  std::vector<BoundPeer> Holders() const;
  // The applied steps that they hold.
  std::uint64_t step() const { return step_; }
  // A generation begins, in place or not.
  void BeginGeneration(bool in_place);

 private:
  enum class Phase : std::uint8_t { kNone, kAwaiting, kKept };
  struct Coverage {
    bool all = false, every_stage = false;
    bool stays = false;       // every stage has a member that holds it and wants to go on
    bool possible = false;    // every stage has a member that holds it, or may come back with it
    std::uint32_t whole = 0;  // pipelines of such that want to go on, where only these can
  };

  bool Holds(const Member* member, std::uint32_t pipeline, std::uint32_t stage) const;
  std::vector<PeerId> HolderIds() const;
  bool MayGoOnInPlace(const Coverage& covered) const;
  bool GrowsFromCheckpoint(const Coverage& covered) const;
  bool AwaitsResume() const { return history_.held() || held_next_; }
  bool MayWait(const Coverage& covered) const;
  void Release();
  bool MayReturn(std::uint32_t stage) const;
  Coverage CoveredByPipelines() const;
  Coverage Covered() const;
  StepsFate Decide();
  std::set<PeerId> CatchUp();
  void Tell(const std::set<PeerId>& behind);
  void LookRestored();
  std::optional<InProgress> AllAtWork() const;
  bool GoesOn();
  std::optional<std::uint64_t> StepOfReturned(bool all) const;
  std::size_t PlacesLeft() const;
  bool AwaitsHosts() const;
  bool Counts(const Member& member, std::uint64_t step) const;
  bool TakeLosses(std::uint64_t step);
  void Adopt(std::uint64_t step);

  const RunConfig& config_;
  Members& members_;
  SwarmPlan& plan_;
  RunJournal& journal_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  ClosingCheckpoint& closing_;
  Reaction& reaction_;
  const bool possible_;  // by the replica method
  const bool in_place_;
  const bool may_shrink_;  // members, or whole pipelines, may go on without the others

  Phase phase_ = Phase::kNone;
  control::v1::Apply last_apply_;
  std::uint64_t step_ = 0;  // applied ones that are held
  double step_seconds_ = 0;
  TimePoint until_{};  // how long peers may come back
  bool grows_ = false;
  bool held_next_ = false;               // the run is about to be held
  bool saving_ = false;                  // as of the last event
  std::optional<TimePoint> release_at_;  // then members need not hold anything any more
  // To go on in place from the newest steps with the same members.
  struct Tries {
    std::uint64_t step = 0;
    std::vector<PeerId> members;
    std::uint32_t count = 0;
  };
  Tries tries_;
  bool restored_ = false;
  std::optional<TimePoint> returning_since_;  // after a restart
  std::optional<InProgress> in_progress_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_HELD_STEPS_H_
