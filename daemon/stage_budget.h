// StageBudget: what a stage takes of its machine. Thread: any.

#ifndef SHOAL_DAEMON_STAGE_BUDGET_H_
#define SHOAL_DAEMON_STAGE_BUDGET_H_

#include <cstdint>

#include "common/status.h"
#include "daemon/config.h"
#include "pipeline/core/runner_types.h"
#include "proto/control.pb.h"

namespace shoal::daemon {

// What the stage costs, computed before it starts and shown.
struct StageBudget {
  std::uint64_t state_bytes = 0;            // what the model holds: weights, gradients, moments
  std::uint64_t micro_batch_bytes = 0;      // one in flight
  std::uint64_t delta_store_bytes = 0;      // when every sample was visited
  std::uint64_t delta_sample_bytes = 0;     // m of one sample at one boundary
  std::uint64_t residual_sample_bytes = 0;  // of a sample's gradients, at the boundary before
  std::uint64_t delta_disk_bytes = 0;       // what the store's files may then take
  std::uint64_t disk_free_bytes = 0;        // where the store is, when the stage began
};

// What m and residuals take, against quota and free disk; written to the log, too. What the model
// takes is left 0. An error: a codec of the run is not known here.
Result<StageBudget> BudgetOf(const pipeline::RunnerConfig& config,
                             const control::v1::RunConfig& run, const DaemonConfig& daemon);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_STAGE_BUDGET_H_
