#include "replica/step_registry.h"

#include <utility>

#include "replica/methods/method_entry.h"

namespace shoal::replica {
namespace {

Result<std::unique_ptr<ReplicaStep>> NewShardedStep(ReplicaContext context) {
  return context.method.traits.shards_parameters ? NewZero3Step(std::move(context))
                                                 : NewQsdpStep(std::move(context));
}

// Registration: a method is carried out by the step of its line here.
constexpr struct {
  std::string_view method;
  StepFactory factory;
} kSteps[] = {
    {"average", NewGradientStep}, {"cocktail", NewGradientStep}, {"powersgd", NewGradientStep},
    {"qadam", NewMomentumStep},   {"onebit", NewMomentumStep},   {"marsit", NewMarsitStep},
    {"qsdp", NewShardedStep},
};

}  // namespace

StepFactory FindStep(std::string_view method) {
  for (const auto& step : kSteps) {
    if (step.method == method) return step.factory;
  }
  return nullptr;
}

Result<std::unique_ptr<ReplicaStep>> NewReplicaStep(ReplicaContext context) {
  if (context.method.local.steps > 0) return NewLocalStep(std::move(context));
  const StepFactory factory = FindStep(context.method.entry->name);
  SHOAL_CHECK(factory != nullptr);
  return factory(std::move(context));
}

}  // namespace shoal::replica
