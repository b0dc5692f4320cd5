// What the stages of a run take of their peers' memory, before anybody has joined. Pure. Thread:
// any.

#ifndef SHOAL_SCHEDULER_SERVER_STAGE_NEEDS_H_
#define SHOAL_SCHEDULER_SERVER_STAGE_NEEDS_H_

#include <cstdint>
#include <memory>
#include <optional>
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
  // What it cannot do without: with one micro-batch at a time.
  std::uint64_t least() const { return base + trained + micro_batch; }
};

// Values of the largest unit that a stage trains: a layer, or at the ends a table of the
// vocabulary.
std::uint64_t LargestUnit(const model::ModelSpec& model, bool ends);

// `base_bytes`: by part of the model, in order, in the format that the run keeps it in; empty
// without adapters. `config` has row_tokens.
class StageMemory {
 public:
  static Result<StageMemory> Make(RunConfig config, const model::ModelSpec& model,
                                  std::vector<std::uint64_t> base_bytes);
  ~StageMemory();
  StageMemory(StageMemory&&) noexcept;

  // Of layers [first, last) as stage number `stage` of `stages`.
  StageNeeds Of(std::uint32_t first, std::uint32_t last, std::uint32_t stage,
                std::uint32_t stages) const;
  // By stage, for cuts like config.stage_first_layers.
  std::vector<StageNeeds> OfCuts(const std::vector<std::uint32_t>& first_layers) const;
  // Cuts into so many stages, none of which takes more than `most` bytes; nothing: there are none.
  std::optional<std::vector<std::uint32_t>> CutsWithin(std::uint64_t most,
                                                       std::uint32_t stages) const;

 private:
  struct State;
  explicit StageMemory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A table with a line for each stage of config's cuts and a head. `memory`: of a peer, 0 for
// unknown; where a stage takes more, what would fit is said below.
std::string DescribeStageMemory(const RunConfig& config, const StageMemory& memory,
                                std::uint64_t memory_bytes);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_STAGE_NEEDS_H_
