// Which validation rows a run measures its held-out loss on, and before which steps. Pure.
// Thread: any.
//
// The rows are the same each time, so that measurements compare, and lie at equal distances in the
// validation part of the data, so that they are not all of one document. They are evaluated before
// a step's micro-batches, with the weights that this step begins with: before the first step, every
// `evaluate_every` steps, and before the last step.

#ifndef SHOAL_SCHEDULER_STEPS_EVALUATION_ROWS_H_
#define SHOAL_SCHEDULER_STEPS_EVALUATION_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

// Empty where the run does not evaluate: evaluate_every is 0, the data has no validation rows, a
// bench runs without weights, or no peer holds all weights of its stage (qsdp:shard_parameters).
std::vector<SampleId> EvaluationRows(const RunConfig& config);

// Whether the rows are evaluated before this step, which counts from 0.
bool EvaluatesBefore(const RunConfig& config, std::uint64_t step);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_EVALUATION_ROWS_H_
