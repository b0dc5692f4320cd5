#include "replica/step_registry.h"

#include <utility>

#include "replica/factor_exchange.h"
#include "replica/methods/method_entry.h"
#include "replica/state/error_keeper.h"

namespace shoal::replica {
namespace {

Result<std::unique_ptr<ReplicaStep>> NewShardedStep(ReplicaContext context) {
  return context.method.traits.shards_parameters ? NewZero3Step(std::move(context))
                                                 : NewQsdpStep(std::move(context));
}

// Registration: a method is carried out by the step of its line here.
constexpr MethodStep kSteps[] = {
    {"average", NewGradientStep},   //
    {"cocktail", NewGradientStep},  //
    {"powersgd", NewGradientStep, NewFactorExchange},
    {"qadam", NewMomentumStep},   //
    {"onebit", NewMomentumStep},  //
    {"marsit", NewMarsitStep},    //
    {"qsdp", NewShardedStep},     //
};

}  // namespace

const MethodStep* FindStep(std::string_view method) {
  for (const MethodStep& step : kSteps) {
    if (step.method == method) return &step;
  }
  return nullptr;
}

Result<std::unique_ptr<ReplicaStep>> NewReplicaStep(ReplicaContext context) {
  ErrorKeeper* const keeper = context.member->errors;
  auto make = NewLocalStep;
  if (context.method.local.steps == 0) {
    const MethodStep* const found = FindStep(context.method.entry->name);
    SHOAL_CHECK(found != nullptr);
    make = found->step;
  }
  SHOAL_ASSIGN_OR_RETURN(auto step, make(std::move(context)));
  if (keeper != nullptr) keeper->DropRest();
  return step;
}

}  // namespace shoal::replica
