#include "pipeline/runner/model_facts.h"

namespace shoal::pipeline {
namespace {

replica::UnitFacts UnitsOf(const model::StageModel& model, std::uint32_t rows,
                           std::uint32_t tokens) {
  replica::UnitFacts facts;
  facts.units = model.units();
  for (std::size_t pass = 0; pass < model::kPasses; ++pass) {
    facts.uses[pass] = model.unit_uses(static_cast<model::Pass>(pass), rows, tokens);
  }
  facts.bf16 = model.options().compute == "bf16";
  return facts;
}

}  // namespace

ModelFacts FactsOf(const model::StageModel& model, std::uint32_t rows, std::uint32_t tokens) {
  const auto layout = model.layout();
  return {model.MicroBatchBytes(rows, tokens),
          model.PendingWeightsBytes(rows, tokens),
          {layout.begin(), layout.end()},
          model.shared_tensors(),
          model.weight_parts(),
          UnitsOf(model, rows, tokens)};
}

}  // namespace shoal::pipeline
