// Which units of its parameters the parts of a stage's operations work with.
//
// Internal to model/. Pure. Thread: any.

#ifndef SHOAL_MODEL_UNIT_USES_H_
#define SHOAL_MODEL_UNIT_USES_H_

#include <cstdint>
#include <vector>

#include "model/families/stage_memory.h"
#include "model/flat_parameters.h"
#include "model/stage_model.h"

namespace shoal::model {

inline StageShape ShapeOf(const StageOptions& options) {
  return {options.range.first_layer, options.range.last_layer, options.compute == "bf16",
          options.dropout > 0, options.recompute};
}

// By part, in the order of Network's. `parameters` are held by units.
std::vector<UnitUse> UnitUses(const FlatParameters& parameters, const ModelSpec& spec,
                              const StageOptions& options, Pass pass, MicroBatchShape shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_UNIT_USES_H_
