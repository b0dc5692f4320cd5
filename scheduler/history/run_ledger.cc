#include "scheduler/history/run_ledger.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "scheduler/plan/counting_pipelines.h"
#include "scheduler/plan/regroup.h"

namespace shoal::scheduler {
namespace {

std::string Step(std::uint64_t step) { return "step " + std::to_string(step); }

class Replay {
 public:
  explicit Replay(std::uint32_t stages) : stages_(stages) {}

  Status On(const PlanMade& event);
  Status On(const PipelinesCount& event);
  Status On(const LossesKnown& event);
  Status On(const StepSkipped& event);
  Status On(const RunFinished& event) const;
  template <typename Other>
  static Status On(const Other&) {
    return Status::Ok();
  }
  RunLedger Take() { return std::move(ledger_); }

 private:
  Status CheckPlan(const PlanMade& event) const;
  void GoBack(const PlanMade& event);
  void Add(std::uint64_t step, const Dealing& dealing);
  // Of a pipeline of the newest plan.
  std::span<const PeerId> HostsOf(std::uint32_t pipeline) const {
    return std::span(ledger_.plans.back().hosts).subspan(std::size_t{pipeline} * stages_, stages_);
  }

  const std::uint32_t stages_;
  RunLedger ledger_;
  CountingPipelines counting_;  // of the newest plan
  std::uint64_t anew_ = 0;      // of the newest change of that
};

Status Replay::CheckPlan(const PlanMade& event) const {
  const std::string plan = "the plan of generation " + std::to_string(event.generation);
  if (event.resume_step > ledger_.steps()) {
    return DataLoss(plan + " resumes at " + Step(event.resume_step) + ", but " +
                    Step(ledger_.steps()) + " is missing");
  }
  if (!ledger_.plans.empty() && event.generation <= ledger_.plans.back().generation) {
    return DataLoss(plan + ", at " + Step(event.resume_step) + ", comes after that of generation " +
                    std::to_string(ledger_.plans.back().generation));
  }
  if (stages_ == 0 || event.hosts.size() % stages_ != 0) {
    return DataLoss(plan + ", at " + Step(event.resume_step) + ", has " +
                    std::to_string(event.hosts.size()) + " hosts, which are no pipelines of " +
                    std::to_string(stages_) + " stages");
  }
  if (event.homes.count > 0 && event.homes.of.size() * stages_ != event.hosts.size()) {
    return DataLoss(plan + ", at " + Step(event.resume_step) + ", has homes for " +
                    std::to_string(event.homes.of.size()) + " pipelines, but " +
                    std::to_string(event.hosts.size() / stages_) + " of them");
  }
  return Status::Ok();
}

// The steps from the plan's own on are void.
void Replay::GoBack(const PlanMade& event) {
  std::vector<VoidSteps> gone;
  while (!ledger_.history.empty() && ledger_.history.back().end > event.resume_step) {
    LedgerSteps& last = ledger_.history.back();
    LedgerSteps cut = last;
    cut.first = std::max(last.first, event.resume_step);
    gone.push_back({std::move(cut), event.generation});
    last.end = event.resume_step;
    if (last.end <= last.first) ledger_.history.pop_back();
  }
  ledger_.thrown_away.insert(ledger_.thrown_away.end(), gone.rbegin(), gone.rend());
  while (!ledger_.skipped.empty() && ledger_.skipped.back().step >= event.resume_step) {
    ledger_.skipped.pop_back();
  }
}

Status Replay::On(const PlanMade& event) {
  SHOAL_RETURN_IF_ERROR(CheckPlan(event));
  GoBack(event);
  const auto pipelines = static_cast<std::uint32_t>(event.hosts.size() / stages_);
  ledger_.plans.push_back({event.generation, event.hosts, pipelines});
  Pipelines whole(pipelines);
  std::iota(whole.begin(), whole.end(), 0u);
  std::erase_if(whole, [this](std::uint32_t p) { return HasGap(HostsOf(p)); });
  if (whole.empty() && pipelines > 0) {
    return DataLoss("the plan of generation " + std::to_string(event.generation) + ", at " +
                    Step(event.resume_step) + ", has no pipeline with a host for each stage");
  }
  counting_.Begin(event.resume_step, event.homes, std::move(whole));
  anew_ = event.resume_step;
  return Status::Ok();
}

Status Replay::On(const PipelinesCount& event) {
  if (ledger_.plans.empty()) return DataLoss(Step(event.step) + " has no plan");
  const LedgerPlan& plan = ledger_.plans.back();
  const auto missing = std::ranges::find_if(
      event.pipelines, [&](std::uint32_t pipeline) { return pipeline >= plan.pipelines; });
  if (missing != event.pipelines.end()) {
    return DataLoss("from " + Step(event.step) + " on pipeline " + std::to_string(*missing) +
                    " counts, but the plan of generation " + std::to_string(plan.generation) +
                    " has " + std::to_string(plan.pipelines));
  }
  const auto gap =
      std::ranges::find_if(event.pipelines, [this](std::uint32_t p) { return HasGap(HostsOf(p)); });
  if (gap != event.pipelines.end()) {
    return DataLoss("from " + Step(event.step) + " on pipeline " + std::to_string(*gap) +
                    " counts, which the plan of generation " + std::to_string(plan.generation) +
                    " gives no host for one of its stages");
  }
  if (event.pipelines.empty()) return DataLoss("from " + Step(event.step) + " on nobody counts");
  if (event.step < ledger_.steps() || event.anew() < anew_) {
    return DataLoss("which pipelines count at " + Step(event.step) + " changed after that step");
  }
  anew_ = event.anew();
  if (event.dealt_until == 0) {
    counting_.From(event.step, event.pipelines);
    return Status::Ok();
  }
  if (counting_.Left(event.step, event.dealt_until, event.pipelines)) return Status::Ok();
  return DataLoss("from " + Step(event.step) + " on nobody is left of those who counted");
}

void Replay::Add(std::uint64_t step, const Dealing& dealing) {
  const std::size_t plan = ledger_.plans.size() - 1;
  if (!ledger_.history.empty() && ledger_.history.back().plan == plan &&
      ledger_.history.back().dealing == dealing) {
    ledger_.history.back().end = step + 1;
  } else {
    ledger_.history.push_back({step, step + 1, plan, dealing});
  }
}

// Losses of several steps may come after what changed between them.
Status Replay::On(const LossesKnown& event) {
  const std::uint64_t steps = ledger_.steps();
  if (event.losses.empty()) return Status::Ok();
  if (ledger_.plans.empty()) return DataLoss(Step(event.first_step) + " has no plan");
  if (event.first_step > steps) {
    return DataLoss(Step(steps) + " is missing: the losses of " + Step(event.first_step) +
                    " come next");
  }
  if (event.first_step < steps) {
    return DataLoss(Step(event.first_step) + " is counted twice: its losses come again after " +
                    Step(steps - 1));
  }
  const bool known = ledger_.plans.back().pipelines > 0;
  for (std::uint64_t step = steps; step < steps + event.losses.size(); ++step) {
    Add(step, known ? counting_.DealingAt(step) : Dealing());
  }
  return Status::Ok();
}

Status Replay::On(const StepSkipped& event) {
  if (event.step != ledger_.steps()) {
    return DataLoss(Step(event.step) + " was skipped out of its turn, when " +
                    Step(ledger_.steps()) + " was next");
  }
  ledger_.skipped.push_back(event);
  return Status::Ok();
}

Status Replay::On(const RunFinished& event) const {
  if (event.steps <= ledger_.steps()) return Status::Ok();
  return DataLoss("the run finished after " + std::to_string(event.steps) + " steps, but " +
                  Step(ledger_.steps()) + " is missing");
}

}  // namespace

std::optional<SampleOrder> FindSampleOrder(std::span<const TimedEvent> events) {
  for (const TimedEvent& timed : events) {
    if (const auto* const order = std::get_if<SampleOrder>(&timed.event)) return *order;
  }
  return std::nullopt;
}

Result<RunLedger> ReplayLedger(std::span<const TimedEvent> events, std::uint32_t stages) {
  Replay replay(stages);
  for (const TimedEvent& timed : events) {
    SHOAL_RETURN_IF_ERROR(
        std::visit([&replay](const auto& event) { return replay.On(event); }, timed.event));
  }
  return replay.Take();
}

}  // namespace shoal::scheduler
