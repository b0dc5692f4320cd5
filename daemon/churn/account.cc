#include "daemon/churn/account.h"

#include <algorithm>
#include <utility>

#include "daemon/churn/events.h"

namespace shoal::daemon {

void Account::Spend(ChurnMachine* machine, TimePoint now) {
  const double seconds = Seconds(now - machine->since);
  machine->since = now;
  if (!machine->there) return;
  if (machine->on == Spent::kTraining) {
    attempt_ += seconds;
  } else {
    spent_[static_cast<std::size_t>(machine->on)] += seconds;
  }
}

void Account::Settle(TimePoint now) {
  for (ChurnMachine& machine : machines_) Spend(&machine, now);
}

void Account::Set(std::size_t machine, Spent on, TimePoint now) {
  if (machine >= machines_.size()) machines_.resize(machine + 1);
  ChurnMachine& entry = machines_[machine];
  if (entry.there && entry.on == on) return;
  if (!entry.there) entry.came = now;
  Spend(&entry, now);
  entry.there = true;
  entry.on = on;
}

void Account::Leave(std::size_t machine, TimePoint now) {
  if (machine >= machines_.size() || !machines_[machine].there) return;
  ChurnMachine& entry = machines_[machine];
  Spend(&entry, now);
  entry.there = false;
  gone_ += Seconds(now - std::max(entry.came, began_));
}

void Account::Begin(std::uint64_t first_step, TimePoint now) {
  Settle(now);
  began_ = now;
  first_step_ = first_step;
  spent_.fill(0);
  attempt_ = unfinished_ = repeated_ = gone_ = 0;
  repeated_steps_ = 0;
  kept_.clear();
}

void Account::Applied(const StepWorth& worth, TimePoint now) {
  Settle(now);
  const double cost = std::exchange(attempt_, 0);
  if (worth.step < first_step_) {  // it was applied before all that counts
    repeated_ += cost;
    return;
  }
  kept_.push_back({worth, cost});
}

void Account::Unfinished(TimePoint now) {
  Settle(now);
  unfinished_ += std::exchange(attempt_, 0);
}

void Account::BackTo(std::uint64_t step) {
  for (; !kept_.empty() && kept_.back().worth.step >= step; kept_.pop_back()) {
    repeated_ += kept_.back().cost;
    ++repeated_steps_;
  }
}

Balance Account::At(TimePoint now) {
  Settle(now);
  Balance balance;
  balance.detection = spent_[static_cast<std::size_t>(Spent::kDetection)];
  balance.transfer = spent_[static_cast<std::size_t>(Spent::kTransfer)];
  balance.idle = spent_[static_cast<std::size_t>(Spent::kIdle)];
  balance.repeated = repeated_;
  balance.unfinished = unfinished_;
  balance.repeated_steps = repeated_steps_;
  balance.steps = kept_.size();
  for (const Kept& step : kept_) {
    balance.useful += step.worth.useful_s;
    balance.first_visits += step.worth.first_s;
    balance.slower += step.cost - step.worth.useful_s - step.worth.first_s;
    balance.micro_batches += step.worth.micro_batches;
  }
  balance.all = Presence(now) - attempt_;
  return balance;
}

double Account::Presence(TimePoint now) const {
  double seconds = gone_;
  for (const ChurnMachine& machine : machines_) {
    if (machine.there) seconds += Seconds(now - std::max(machine.came, began_));
  }
  return seconds;
}

}  // namespace shoal::daemon
