// The audit of a run: whether each sample of each epoch was counted exactly once in the final
// history, by whom and in which step. Recomputed from the event log. Pure.

#ifndef SHOAL_SCHEDULER_HISTORY_RUN_AUDIT_H_
#define SHOAL_SCHEDULER_HISTORY_RUN_AUDIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "scheduler/history/run_ledger.h"

namespace shoal::scheduler {

// What a step counts, as the ledger sees it.
struct SampleDeal {
  std::uint64_t train_rows = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint32_t micro_batches = 0, micro_batch_rows = 0;
  // The samples of a micro-batch in all steps of an epoch (dataset::Sampler::OfEpoch).
  std::function<std::vector<SampleId>(std::uint64_t epoch, std::uint32_t global_index)> of_epoch;
};
// Invalid argument: no step can be made of so many rows.
Result<SampleDeal> MakeSampleDeal(const SampleOrder& order);

// Work of one member: micro-batches that passed through its stages.
struct MemberWork {
  PeerId peer;
  std::uint64_t counted = 0;      // in the final history
  std::uint64_t thrown_away = 0;  // in steps that were trained again
};

// Where a row of the data was counted.
struct SampleVisit {
  std::uint64_t epoch = 0, step = 0;
  std::uint32_t micro_batch = 0;
  std::optional<std::uint32_t> pipeline = {};  // of the plan; none: its hosts are not known
  std::size_t steps = 0;  // index of the history's steps, with plan and pipelines
};

struct RunAudit {
  std::vector<MemberWork> members;  // by their first position
  std::uint64_t samples = 0;        // counted, each once in its epoch
  std::vector<SampleVisit> visits;  // of the row that was asked for
};

// Data loss names the first step and sample that are not counted exactly once. `row`: also say
// where that one was counted. Linear in the samples of the run; memory for a bit per row and the
// order of a micro-batch in an epoch.
Result<RunAudit> AuditLedger(const RunLedger& ledger, const SampleDeal& deal, std::uint32_t stages,
                             std::optional<std::uint64_t> row = {});

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_RUN_AUDIT_H_
