#include "scheduler/swarm/run_journal.h"

#include <utility>
#include <variant>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {

void RunJournal::Store(const StoredEvent& event) { reaction_.Add(Persist{EncodeEvent(event)}); }

void RunJournal::Record(const StoredEvent& event) {
  const Status applied = history_.Apply(event);
  SHOAL_CHECK(applied.ok());
  if (std::holds_alternative<PlanMade>(event)) stepped_.reset();
  Store(event);
}

void RunJournal::AddLoss(double loss) {
  history_.AddLoss(loss);
  const bool first = !std::exchange(stepped_, reaction_.now());
  const bool late = reaction_.now() - stored_ >= kLossesEvery;
  if (first || late || history_.new_losses() >= kLossesPerEvent) StoreLosses();
}

void RunJournal::AddSkipped(double loss, const std::string& cause) {
  StoreLosses();
  Record(StepSkipped{history_.step(), cause});
  AddLoss(loss);
}

void RunJournal::StoreStart() {
  if (const auto start = attendance_.Begin()) Store(*start);
}

void RunJournal::StoreCame(const PeerId& peer, const std::string& name) {
  if (const auto came = attendance_.Came(peer, name, reaction_.now())) Store(*came);
}

void RunJournal::StoreGone(const PeerId& peer, const std::string& name, const std::string& reason) {
  if (const auto gone = attendance_.Gone(peer, name, reason, reaction_.now())) Store(*gone);
}

void RunJournal::StoreLosses() {
  if (const auto known = history_.TakeNewLosses()) Store(*known);
  stored_ = reaction_.now();
}

std::optional<Duration> RunJournal::idle() const {
  if (!stepped_) return std::nullopt;
  return reaction_.now() - *stepped_;
}

Result<StoredEvent> RunJournal::Restore(std::string_view event) {
  SHOAL_ASSIGN_OR_RETURN(StoredEvent stored, DecodeEvent(event));
  SHOAL_RETURN_IF_ERROR(history_.Apply(stored));
  attendance_.Restored(stored);
  return stored;
}

}  // namespace shoal::scheduler
