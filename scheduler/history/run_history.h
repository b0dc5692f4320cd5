// RunHistory: what a run has done, as far as it survives a restart of the scheduler.
//
// Each change that an event stands for is made by Apply, in the running scheduler and when its log
// is read again, so both agree. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_RUN_HISTORY_H_
#define SHOAL_SCHEDULER_HISTORY_RUN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

class RunHistory {
 public:
  // A checkpoint that is whole: the optimizer steps in it, and its files by name.
  struct Checkpoint {
    std::uint64_t step = 0;  // 0: none
    ArtefactMap files;
  };

  // `config_hash` covers what may not change during a run.
  explicit RunHistory(std::uint64_t config_hash) : config_hash_(config_hash) {}

  // Data loss where the event cannot follow what came before; failed precondition for the history
  // of another configuration. Nothing has changed then. RunFinished changes nothing.
  Status Apply(const StoredEvent& event);

  // The next step is applied.
  void AddLoss(double loss);
  // The losses that no event holds yet, as an event; nothing if there are none. The caller stores
  // it and does not apply it.
  std::optional<LossesKnown> TakeNewLosses();
  std::size_t new_losses() const { return losses_.size() - losses_stored_; }

  bool began() const { return began_; }
  // Older logs have none.
  const std::optional<SampleOrder>& sample_order() const { return sample_order_; }
  bool started() const { return started_; }
  bool held() const { return held_; }  // paused until somebody orders to resume
  std::uint64_t generation() const { return generation_; }
  // Of its plan, by pipeline, then stage, zeros where nobody is any more; empty: not known.
  const std::vector<PeerId>& hosts() const { return hosts_; }
  const Homes& homes() const { return homes_; }  // of its pipelines
  // In the newest plan that they were in.
  const std::map<PeerId, std::uint32_t>& last_homes() const { return last_homes_; }
  // The pipelines of that plan that count, and from which step on; none named: all of them, from
  // the plan's own step on.
  const PipelinesCount& counting() const { return counting_; }
  // The newest generation has ended.
  bool ended() const { return ended_; }
  std::uint64_t step() const { return step_; }  // steps applied in the newest history
  const std::vector<double>& losses() const { return losses_; }
  // All steps that were ever applied, those that were lost again included, and how often some were.
  std::uint64_t trained() const { return trained_; }
  std::uint64_t set_back() const { return set_back_; }
  // In order of steps.
  const std::vector<HeldOutMeasured>& held_out() const { return held_out_; }
  // Steps applied in the newest history that changed no weights, in order; how many of them are its
  // last ones; and why the very last one was skipped, empty if that is not known any more.
  const std::vector<std::uint64_t>& skipped() const { return skipped_; }
  std::size_t skipped_in_a_row() const;
  const std::string& last_skipped() const { return last_skipped_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // The one before; none after the run went back to it.
  const Checkpoint& older() const { return older_; }

 private:
  Status On(const RunBegan& event);
  Status On(const SampleOrder& event);
  Status On(const RunStarted& event);
  Status On(const GenerationEnded& event);
  Status On(const GenerationGoesOn& event);
  // What only tells a story.
  static Status On(const SchedulerStarted&) { return Status::Ok(); }
  static Status On(const MemberCame&) { return Status::Ok(); }
  static Status On(const MemberGone&) { return Status::Ok(); }
  // What the invite book keeps.
  static Status On(const InviteMade&) { return Status::Ok(); }
  static Status On(const InviteRevoked&) { return Status::Ok(); }
  static Status On(const MemberJoined&) { return Status::Ok(); }
  static Status On(const MemberKicked&) { return Status::Ok(); }
  static Status On(const MemberTakenBack&) { return Status::Ok(); }
  // What the quarantine keeps.
  static Status On(const MemberFault&) { return Status::Ok(); }
  static Status On(const MemberPardoned&) { return Status::Ok(); }
  Status On(const PlanMade& event);
  Status On(const PipelinesCount& event);
  void Leave(const PipelinesCount& event);
  Status On(const LossesKnown& event);
  Status On(const HeldOutMeasured& event);
  Status On(const StepSkipped& event);
  Status On(const CheckpointMade& event);
  Status On(const RunHeld& event);
  Status On(const RunReleased& event);
  Status On(const RunFinished& event);
  Status On(const RunRestored& event);

  const std::uint64_t config_hash_;
  std::optional<SampleOrder> sample_order_;
  bool began_ = false, started_ = false, held_ = false;
  std::uint64_t generation_ = 0;
  std::vector<PeerId> hosts_;
  Homes homes_;
  std::map<PeerId, std::uint32_t> last_homes_;
  PipelinesCount counting_;
  std::uint64_t step_ = 0;
  std::uint64_t trained_ = 0, set_back_ = 0;
  std::vector<double> losses_;
  std::size_t losses_stored_ = 0;
  std::vector<HeldOutMeasured> held_out_;
  bool ended_ = false;
  std::vector<std::uint64_t> skipped_;
  std::string last_skipped_;
  Checkpoint checkpoint_, older_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_RUN_HISTORY_H_
