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
  explicit SwarmPhase(Account* account) : account_(*account) {}

  void Come(std::size_t machine, TimePoint now);
  void Go(std::size_t machine, TimePoint now);
  // Who has a place in the newest plan.
  void Placed(std::set<std::size_t> placed);
  void Aborted(std::size_t machine, const control::v1::Abort& abort);
  // What an abort asked of it.
  void Saved(std::size_t machine);
  void Needs(const control::v1::RunStatus& status);
  // There are machines enough, and nothing happened for so long. Then the time counts anew.
  bool Stuck(Duration most, TimePoint now);
  // After each event: the account follows.
  void Look(scheduler::RunState state, TimePoint now);

 private:
  Spent Of(std::size_t machine) const;

  Account& account_;
  scheduler::RunState state_ = scheduler::RunState::kWaiting;
  std::set<std::size_t> there_, placed_;
  std::set<std::size_t> saving_;  // who uploads what the last generation made
  bool lost_ = false;             // somebody of the plan is gone, and the scheduler does not know
  bool enough_ = false;           // machines for a plan
  bool changed_ = false;
  TimePoint since_{};  // the last change
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_SWARM_PHASE_H_
