#include "scheduler/steps/evaluation_rows.h"

#include <algorithm>

#include "replica/methods/replica_method.h"

namespace shoal::scheduler {
namespace {

bool ShardsParameters(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return config.pipelines > 1 && method.ok() && method->traits.shards_parameters;
}

}  // namespace

std::vector<SampleId> EvaluationRows(const RunConfig& config) {
  std::vector<SampleId> rows;
  if (config.evaluate_every == 0 || config.without_weights || ShardsParameters(config)) return rows;
  const std::uint64_t trained = std::uint64_t{config.micro_batches} * config.micro_batch_rows;
  const std::uint64_t wanted = config.evaluate_rows > 0 ? config.evaluate_rows : trained;
  const std::uint64_t count = std::min(wanted, config.validation_rows);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t row =
        i * (config.validation_rows / count) + i * (config.validation_rows % count) / count;
    rows.push_back({config.train_rows + row});
  }
  return rows;
}

bool EvaluatesBefore(const RunConfig& config, std::uint64_t step) {
  if (config.evaluate_every == 0) return false;
  return step % config.evaluate_every == 0 || step + 1 == config.steps;
}

}  // namespace shoal::scheduler
