// MemberFaults: members that cannot do their part, or say that another cannot, and what follows:
// the generation ends, a spare takes a position, or the run fails. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_MEMBER_FAULTS_H_
#define SHOAL_SCHEDULER_SWARM_MEMBER_FAULTS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/timeouts.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/peers/complaints.h"
#include "scheduler/peers/quarantine.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class MemberFaults {
 public:
  // All outlive it.
  MemberFaults(const RunConfig& config, Members* members, RunJournal* journal, SwarmPlan* plan,
               Lifecycle* lifecycle, Reaction* reaction);

  // A stored event, in order, which came at that time.
  void Restore(const StoredEvent& event, TimePoint at) { quarantine_.Restore(event, at); }

  void OnPlanFailed(const Member& member, const control::v1::PlanFailed& failed);
  void OnLinkBroken(const Member& member, const control::v1::LinkBroken& broken);
  // Ends the generation: a spare, if there is one, takes the member's position.
  void Replace(const Member& member, const std::string& cause);
  // The same: what the member sent cannot be right. Who does that again and again gets no stage for
  // a while.
  void Misbehaved(const Member& member, FaultKind kind, const std::string& cause);
  // Puts a member into quarantine if this fault of it was one too many; says so, or nothing. The
  // generation goes on.
  std::string AddFault(const Member& member, FaultKind kind, const std::string& cause);
  // A member is here: whether it is in quarantine is remembered.
  void OnHello(const PeerId& peer) { Mark(members_.Find(peer)); }
  // Tells it that it is in quarantine, and until when; or that it is no more.
  void TellQuarantine(const Member& member);
  // Who has been in quarantine for long enough may have a stage again.
  void EndQuarantines();
  // By order.
  void Release(const PeerId& peer);
  // A complaint was not believed, but the step does not end either: something is broken. A step
  // may take four times as long as usual, or as the table of timeouts says.
  void EndDoubtfulStep(double usual_step_seconds);

  // Who is in quarantine, here or not.
  std::map<PeerId, Quarantine::Term> InQuarantine(TimePoint now) const {
    return quarantine_.Terms(now);
  }

  // Complaints whose peers were not lost meanwhile are judged, and failures to do what others did.
  // With any event.
  void Look();

  // The complaint that is not believed, if there is one in this generation.
  const std::optional<Doubt>& doubt() const { return doubt_; }

  // ---- what is forgotten when
  void PlanWorked() { refusals_.clear(); }
  void CheckpointWhole() { replaced_.clear(); }
  void GenerationEnded() {
    doubt_.reset();
    waiting_.clear();
  }
  // The organiser ordered to resume.
  void Forgive();

 private:
  bool AllRefuse() const;
  bool Refused(const Member& by, const Member& of, const std::string& error);
  void Complain(const Member& by, const Member& of, const std::string& cause);
  void Judge(const Member& by, const Member& of, const std::string& cause);
  std::string AddFailure(const Member& member, const std::string& cause);
  void JudgeFailures();
  void Mark(Member* member);

  const Timeouts timeouts_;
  Members& members_;
  RunJournal& journal_;
  const RunHistory& history_;  // of the journal
  Reaction& reaction_;
  SwarmPlan& plan_;
  Lifecycle& lifecycle_;
  std::set<PeerId> refusals_;  // who called plans invalid since the last that worked
  std::set<PeerId> replaced_;  // who lost its position since the last checkpoint
  struct Failure {
    std::uint64_t step = 0;
    std::string cause;
  };
  std::map<PeerId, Failure> failures_;  // at a step that is not applied yet
  ComplaintBook complaints_;            // of links
  ComplaintBook bad_messages_;
  Quarantine quarantine_;
  std::optional<Doubt> doubt_;
  struct Complaint {
    PeerId by, of;
    std::string cause;
    TimePoint since;
  };
  std::vector<Complaint> waiting_;  // for a peer to be lost
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_MEMBER_FAULTS_H_
