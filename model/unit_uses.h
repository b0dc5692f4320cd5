// Which units of its parameters the parts of a GPT-2 stage's operations work with.
//
// Internal to model/. Pure. Thread: any.

#ifndef SHOAL_MODEL_UNIT_USES_H_
#define SHOAL_MODEL_UNIT_USES_H_

#include <cstdint>
#include <vector>

#include "model/flat_parameters.h"
#include "model/stage_model.h"

namespace shoal::model {

struct MicroBatchShape {
  std::uint32_t rows = 0, tokens = 0;
};

// By part, in the order of Gpt2Network's. `parameters` are held by units.
std::vector<UnitUse> UnitUses(const FlatParameters& parameters, const storage::ModelConfig& config,
                              const StageOptions& options, Pass pass, MicroBatchShape shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_UNIT_USES_H_
