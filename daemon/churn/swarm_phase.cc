#include "daemon/churn/swarm_phase.h"

#include <utility>

namespace shoal::daemon {

using scheduler::RunState;

void SwarmPhase::Come(std::size_t machine, TimePoint now) {
  there_.insert(machine);
  account_.Set(machine, Spent::kIdle, now);
}

void SwarmPhase::Go(std::size_t machine, TimePoint now) {
  there_.erase(machine);
  account_.Leave(machine, now);
  saving_.erase(machine);
  const bool active = state_ == RunState::kPreparing || state_ == RunState::kTraining;
  if (!active || !placed_.contains(machine)) return;
  lost_ = changed_ = true;
  Look(state_, now);
}

void SwarmPhase::Placed(std::set<std::size_t> placed) {
  placed_ = std::move(placed);
  saving_.clear();
  lost_ = false;
  planned_ = changed_ = true;
}

void SwarmPhase::Aborted(std::size_t machine, const control::v1::Abort& abort) {
  lost_ = false;
  changed_ = true;
  if (!abort.save()) return (void)saving_.erase(machine);
  if (there_.contains(machine)) saving_.insert(machine);
}

void SwarmPhase::Saved() {
  changed_ = changed_ || !saving_.empty();
  saving_.clear();
}

void SwarmPhase::Counts(std::set<std::size_t> counting) {
  if (counting == counting_) return;
  counting_ = std::move(counting);
  changed_ = true;
}

Spent SwarmPhase::Of(std::size_t machine) const {
  if (!placed_.contains(machine)) return Spent::kIdle;
  switch (state_) {
    case RunState::kTraining:
      if (!counting_.contains(machine)) return Spent::kTransfer;
      return lost_ ? Spent::kDetection : Spent::kTraining;
    case RunState::kPreparing: return lost_ ? Spent::kDetection : Spent::kTransfer;
    default: break;
  }
  if (!saving_.empty()) return Spent::kTransfer;
  return enough() ? Spent::kDetection : Spent::kIdle;
}

bool SwarmPhase::Stuck(Duration most, TimePoint now) {
  const bool active = state_ == RunState::kPreparing || state_ == RunState::kTraining;
  if (active || !saving_.empty() || !enough() || now - since_ < most) return false;
  since_ = now;
  return true;
}

void SwarmPhase::Look(RunState state, TimePoint now) {
  if (!changed_ && state == state_) return;
  state_ = state;
  changed_ = false;
  since_ = now;
  for (const std::size_t machine : there_) account_.Set(machine, Of(machine), now);
}

}  // namespace shoal::daemon
