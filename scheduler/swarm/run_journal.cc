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
  return stored;
}

}  // namespace shoal::scheduler
