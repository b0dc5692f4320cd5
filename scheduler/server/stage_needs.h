// What the stages of a run take of their peers' memory, before anybody has joined. Pure. Thread:
// any.

#ifndef SHOAL_SCHEDULER_SERVER_STAGE_NEEDS_H_
#define SHOAL_SCHEDULER_SERVER_STAGE_NEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

struct StageNeeds {
  std::uint64_t base = 0;         // bytes of what adapters leave as it is
  std::uint64_t trained = 0;      // weights, gradients, moments and what the replica method keeps
  std::uint64_t micro_batch = 0;  // bytes that one in flight keeps, at most
  std::uint64_t in_flight = 0;    // at once, in the schedule 1F1B

  std::uint64_t all() const { return base + trained + in_flight * micro_batch; }
};

// Values of the largest unit that a stage trains: a layer, or at the ends a table of the vocabulary.
std::uint64_t LargestUnit(const model::ModelSpec& model, bool ends);

// By stage; `config` has its cuts. `base_bytes`: of a part in the format that the run keeps it in.
Result<std::vector<StageNeeds>> NeedsOfStages(
    const RunConfig& config, const model::ModelSpec& model,
    const std::vector<std::uint64_t>& base_bytes_by_stage);

// A table with a line for each stage and a head.
std::string FormatStageNeeds(const RunConfig& config, const std::vector<StageNeeds>& needs);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_STAGE_NEEDS_H_
