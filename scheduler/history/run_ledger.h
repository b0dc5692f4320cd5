// RunLedger: which steps make up the final history of a run, on which plan and pipelines each was
// trained, and which were trained and thrown away: replayed from the event log. Pure.

#ifndef SHOAL_SCHEDULER_HISTORY_RUN_LEDGER_H_
#define SHOAL_SCHEDULER_HISTORY_RUN_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/plan/dealing.h"

namespace shoal::scheduler {

struct LedgerPlan {
  std::uint64_t generation = 0;
  std::vector<PeerId> hosts;    // by pipeline, then stage; older logs have none
  std::uint32_t pipelines = 0;  // 0: the hosts are not known
};
// Steps that were trained alike, `first` to before `end`.
struct LedgerSteps {
  std::uint64_t first = 0, end = 0;
  std::size_t plan = 0;  // index
  Dealing dealing;       // no turns: the hosts are not known

  std::uint64_t size() const { return end - first; }
  // Those that counted in the end; none: the hosts are not known.
  Pipelines pipelines() const { return dealing.turns.empty() ? Pipelines() : dealing.last(); }
};
struct VoidSteps {
  LedgerSteps steps;
  std::uint64_t resumed_by = 0;  // the generation that began before them
};

struct RunLedger {
  std::vector<LedgerPlan> plans;
  std::vector<LedgerSteps> history;  // without gaps, from step 0
  std::vector<VoidSteps> thrown_away;
  std::vector<StepSkipped> skipped;  // of the history, in order

  std::uint64_t steps() const { return history.empty() ? 0 : history.back().end; }
};

// How the samples are dealt out; nothing: an older version wrote the log.
std::optional<SampleOrder> FindSampleOrder(std::span<const TimedEvent> events);

// Data loss names the first step that is not as it must be: one without a plan, one whose losses
// are missing or come again, pipelines that a plan does not have.
Result<RunLedger> ReplayLedger(std::span<const TimedEvent> events, std::uint32_t stages);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_RUN_LEDGER_H_
