// What a runner asks of its model once: sizes, layouts and parts, which do not change.

#ifndef SHOAL_PIPELINE_RUNNER_MODEL_FACTS_H_
#define SHOAL_PIPELINE_RUNNER_MODEL_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/stage_model.h"
#include "pipeline/core/runner_types.h"
#include "replica/operation_gate.h"
#include "replica/replica_step.h"
#include "replica/state/state_transfer.h"

namespace shoal::pipeline {

struct ModelFacts {
  std::size_t micro_batch_bytes = 0, pending_weights_bytes = 0;
  std::vector<model::TensorLayout> layout;
  std::vector<model::TensorLayout> shared;
  std::vector<std::vector<std::size_t>> weight_parts;
  replica::UnitFacts units;
};

// What compute does in an operation of this pass.
Activity ActivityOf(model::Pass pass);

// What exchanges cost that take gradients out of a model on a device and put their sums back.
std::string ExchangeOnHostText(const RunnerConfig& config, const ModelFacts& facts);

// Who holds the stage's state and what this peer lacks of it, as the plan says; no callbacks.
replica::StateTransfer::Options TransferOptionsOf(const RunnerConfig& config,
                                                  const ModelFacts& facts);

// Of micro-batches of `rows` rows of `tokens` tokens. Thread: compute.
ModelFacts FactsOf(const model::StageModel& model, std::uint32_t rows, std::uint32_t tokens);

// What the replica step of a stage is made of; `group`: null where it has none. `member` and
// `group` outlive it. Failed precondition: the stage shares tensors, but the plan names no peers of
// these.
Result<replica::ReplicaContext> ReplicaContextOf(const RunnerConfig& config,
                                                 const ModelFacts& facts, replica::Member* member,
                                                 const replica::GroupLinks* group);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_MODEL_FACTS_H_
