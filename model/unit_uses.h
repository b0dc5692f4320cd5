// Which units of its parameters the parts of a stage's operations work with.
//
// Internal to model/. Pure. Thread: any.

#ifndef SHOAL_MODEL_UNIT_USES_H_
#define SHOAL_MODEL_UNIT_USES_H_

#include <cstdint>
#include <vector>

#include "model/flat_parameters.h"
#include "model/stage_memory.h"
#include "model/stage_model.h"

namespace shoal::model {

// By part, in the order of Network's. `parameters` are held by units.
std::vector<UnitUse> UnitUses(const FlatParameters& parameters, const ModelSpec& spec,
                              const StageOptions& options, Pass pass, MicroBatchShape shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_UNIT_USES_H_
