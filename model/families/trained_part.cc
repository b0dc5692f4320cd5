#include "model/families/trained_part.h"

#include <span>

#include "model/families/fresh_weights.h"

namespace shoal::model {

TrainedPart BeginTraining(const ModelSpec& spec, const std::string& part,
                          const storage::TensorMap& given, std::uint64_t seed) {
  TrainedPart trained;
  for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
    const auto found = given.find(name);
    if (found != given.end()) {
      trained.tensors.insert(*found);
      continue;
    }
    std::vector<float>& values = trained.drawn.emplace_back(ValuesOf(tensor));
    InitTensor(tensor, name, seed, values);
    trained.tensors[name] = {storage::DType::kF32, tensor.shape, std::as_bytes(std::span(values))};
  }
  return trained;
}

storage::TensorMap FrozenPart(const ModelSpec& spec, const std::string& part,
                              const storage::TensorMap& given) {
  storage::TensorMap frozen;
  for (const auto& [name, tensor] : spec.FrozenTensors(part)) {
    if (const auto found = given.find(name); found != given.end()) frozen.insert(*found);
  }
  return frozen;
}

}  // namespace shoal::model
