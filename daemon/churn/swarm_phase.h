// SwarmPhase: what each machine spends its time on, by what the scheduler does and who is there.
// Thread: one.

#ifndef SHOAL_DAEMON_CHURN_SWARM_PHASE_H_
#define SHOAL_DAEMON_CHURN_SWARM_PHASE_H_

#include <cstddef>
#include <cstdint>
#include <set>

#include "daemon/churn/account.h"
#include "proto/control.pb.h"
#include "scheduler/history/run_lifecycle.h"

namespace shoal::daemon {

class SwarmPhase {
 public:
  SwarmPhase(std::size_t stages, Account* account) : stages_(stages), account_(*account) {}

  void Come(std::size_t machine, TimePoint now);
  void Go(std::size_t machine, TimePoint now);
  // Who has a place in the newest plan.
  void Placed(std::set<std::size_t> placed);
  void Aborted(std::size_t machine, const control::v1::Abort& abort);
  // What aborts asked for is saved and uploaded.
  void Saved();
  // Of those, who has micro-batches in the step in progress; the others wait for their state, or
  // for that of others.
  void Counts(std::set<std::size_t> counting);
  // There are machines enough, and nothing happened for so long. Then the time counts anew.
  bool Stuck(Duration most, TimePoint now);
  // After each event: the account follows.
  void Look(scheduler::RunState state, TimePoint now);

 private:
  Spent Of(std::size_t machine) const;
  // Machines for a pipeline, once there was a plan.
  bool enough() const { return planned_ && there_.size() >= stages_; }

  const std::size_t stages_;
  Account& account_;
  scheduler::RunState state_ = scheduler::RunState::kWaiting;
  std::set<std::size_t> there_, placed_, counting_;
  std::set<std::size_t> saving_;  // who saves what the last generation made
  bool lost_ = false;             // somebody of the plan is gone, and the scheduler does not know
  bool planned_ = false;
  bool changed_ = false;
  TimePoint since_{};  // the last change
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_SWARM_PHASE_H_
