// CheckpointUploads: the checkpoints of a run that are under way: their members save their stages
// and share the upload out (checkpoint_rounds.h), and what follows where one cannot. They go on
// when a generation ends, unless its steps are in doubt or trained again. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_CHECKPOINT_UPLOADS_H_
#define SHOAL_SCHEDULER_SWARM_CHECKPOINT_UPLOADS_H_

#include <cstdint>
#include <optional>
#include <set>
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

class CheckpointUploads {
 public:
  // All outlive it. `initial`: artefacts of the fresh model.
  CheckpointUploads(const RunConfig& config, const ArtefactMap& initial, Members* members,
                    const SwarmPlan& plan, RunJournal* journal, Lifecycle* lifecycle,
                    MemberFaults* faults, Reaction* reaction);

  // Of the newest plan. In place: what is under way goes on; else the plan resumes from the newest
  // checkpoint.
  void BeginGeneration(bool in_place);
  void EndGeneration();
  // The weights that were saved are in doubt.
  void DropAll();

  // Steps applied at the newest checkpoint that was asked for, or resumed from.
  std::uint64_t asked() const { return rounds_.asked(); }
  bool pending() const { return rounds_.pending(); }
  bool Has(std::uint64_t step) const { return rounds_.Has(step); }
  // As many are under way as may be.
  bool full() const { return rounds_.full(); }
  // The members save what they hold after the newest step.
  void Begin();
  // The same of an ended generation: these do, until EndClosing.
  void BeginClosing(std::uint64_t step, const std::vector<CheckpointRounds::Saver>& savers);
  void EndClosing();
  // A step of the plan took so long.
  void AddStep(Duration step) { interval_.AddStep(step, rounds_.pending()); }
  // Steps from one checkpoint to the next, 1 or more: those of the run file, or what suits.
  std::uint64_t Every() const;

  // Pipelines have left the plan: nobody waits for what their members have not saved yet.
  void GoOnWithout();
  // These members hold wrong weights: nothing that they save is used in this generation. True: a
  // checkpoint that has some of that ends.
  bool Distrust(const std::set<PeerId>& peers);

  // A member has saved its stage, or failed to.
  void OnDone(Member* member, const control::v1::CheckpointDone& done);
  // The organiser ordered to resume: who could not save is to try again.
  void Forgive();
  // A member has uploaded all that it could.
  void OnOffered(Member* member, const control::v1::ArtefactsOffered& offered);
  // A file that was wanted is here.
  void OnHere(const std::string& hash);
  // The scheduler's disk did not take a file that is still needed.
  bool not_kept() const { return !not_kept_.empty(); }
  // The scheduler's own disk takes no files: no fault of who sends them, who is asked again.
  void OnNotKept(const std::string& hash, const std::string& reason);
  // A member has come or gone.
  void OnMoved(const PeerId& peer);
  // A plan from the newest checkpoint that is whole could be made. True: a newer one is waited for
  // first. `step_seconds`: of a step; 0: not known.
  bool AwaitNewer(double step_seconds);
  // Steps applied in that; none: no plan waits for one.
  std::optional<std::uint64_t> awaited() const { return awaited_; }
  // From time to time: who brings nothing is not waited for.
  void OnTick();
  // With any event: asks for what is to be uploaded. The steps applied in a checkpoint that is
  // whole by now, and the run's newest.
  std::optional<std::uint64_t> Look();

  // Files of checkpoints that are not whole yet, here or on their way.
  std::vector<control::v1::ArtefactRef> Files() const { return rounds_.Files(); }
  // Why checkpoints are not made, for people: the scheduler's disk, or that of a member of the plan
  // whose last one failed. Empty: nothing is known to be wrong.
  std::string Trouble() const;

 private:
  bool MaySave(const Member* member) const;
  const Member* SaverOf(std::uint32_t stage) const;
  Status AddSaved(const Member& member, const control::v1::CheckpointDone& done);
  void OnFailed(Member* member, const std::string& error);
  void OnLost(const CheckpointRounds::Lost& lost);
  void OnDiffers(const CheckpointRounds::Differs& differs);
  void OnLastLost(const Member* failed, const Member* other);
  void DropUnneeded();
  std::string WhoCannotSave() const;
  CheckpointRounds::Line LineOf() const;

  const RunConfig& config_;
  const ArtefactMap& initial_;
  Members& members_;
  const SwarmPlan& plan_;
  RunJournal& journal_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  MemberFaults& faults_;
  Reaction& reaction_;
  CheckpointRounds rounds_;
  bool asks_ = false;          // somebody may still upload what nobody needs
  std::uint64_t closing_ = 0;  // steps applied in the closing checkpoint; 0: there is none
  std::set<PeerId> distrusted_;
  std::optional<TimePoint> newer_until_;  // how long a plan waits for a newer checkpoint
  std::optional<std::uint64_t> awaited_;
  bool newer_dealt_ = false;        // of that one all is shared out
  std::set<std::string> not_kept_;  // hashes of files that the scheduler's disk did not take
  std::string why_not_kept_;        // the last of them
  TimePoint ask_again_at_{};        // for these
  CheckpointInterval interval_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_CHECKPOINT_UPLOADS_H_
