// The trained tensors of a part as training begins. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_TRAINED_PART_H_
#define SHOAL_MODEL_FAMILIES_TRAINED_PART_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

// Behind a part's name: its tensors that training leaves as they are, as an artefact of a run.
inline constexpr std::string_view kBaseSuffix = ".base";

struct TrainedPart {
  storage::TensorMap tensors;             // views of the given tensors, and of `drawn`
  std::vector<std::vector<float>> drawn;  // of adapters
};

// `given`: the part as a model directory has it; must outlive the result. Adapters are drawn from
// `seed` and their names; where the model has none, all is as given.
TrainedPart BeginTraining(const ModelSpec& spec, const std::string& part,
                          const storage::TensorMap& given, std::uint64_t seed);

// The tensors of `given` that training leaves as they are.
storage::TensorMap FrozenPart(const ModelSpec& spec, const std::string& part,
                              const storage::TensorMap& given);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_TRAINED_PART_H_
