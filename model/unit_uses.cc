#include "model/unit_uses.h"

#include <algorithm>
#include <string>

namespace shoal::model {
namespace {

using Units = std::vector<std::size_t>;

}  // namespace

std::vector<UnitUse> UnitUses(const FlatParameters& parameters, const ModelSpec& spec,
                              const StageOptions& options, Pass pass, MicroBatchShape shape) {
  const StageRange& range = options.range;
  const bool first = range.first_layer == 0, last = range.last_layer == spec.layers();
  const auto units_of = [&](const std::string& part) {
    Units units;
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const std::size_t unit = parameters.UnitOf(name);
      if (std::ranges::find(units, unit) == units.end()) units.push_back(unit);
    }
    return units;
  };
  Units embedding, head;
  const Units shared = units_of("shared");
  if (first) embedding = units_of("embedding");
  if (last) head = units_of("head");
  std::vector<Units> layers;
  for (std::uint32_t layer = range.first_layer; layer < range.last_layer; ++layer) {
    layers.push_back(units_of("layer." + std::to_string(layer)));
  }
  std::vector<UnitUse> uses;
  if (pass == Pass::kForward || (pass == Pass::kBackwardInput && options.recompute)) {
    if (first) uses.push_back({embedding, {}});
    for (const Units& layer : layers) uses.push_back({layer, {}});
    if (last) uses.push_back({head, {}});
    // The rows that layers share are made before the first of them, and kept.
    for (const std::size_t unit : shared) uses.front().weights.push_back(unit);
  }
  if (pass == Pass::kForward) return uses;
  const bool weights = pass == Pass::kBackwardWeights;
  if (last && weights) {
    uses.push_back({KeepsLogits(spec, ShapeOf(options), shape) ? Units() : head, head});
  } else if (last) {
    uses.push_back({head, {}});
  }
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    // The gradient of the table which layers share goes through their products.
    const UnitUse of_weights{spec.relative ? *layer : Units(), *layer};
    uses.push_back(weights ? of_weights : UnitUse{*layer, {}});
  }
  if (first && weights) uses.push_back({{}, embedding});
  if (spec.relative && weights) uses.push_back({shared, shared});
  if (weights || !first) return uses;
  // The lowest layer's part goes on through the embedding's norm and projection.
  const EmbeddingSpec& begin = spec.embedding;
  for (const std::string& name :
       {begin.norm ? begin.norm->weight : "", begin.projection ? begin.projection->weight : ""}) {
    if (name.empty() || !spec.Trains(name)) continue;
    const std::size_t unit = parameters.UnitOf(name);
    Units& held = uses.back().weights;
    if (std::ranges::find(held, unit) == held.end()) held.push_back(unit);
  }
  return uses;
}

}  // namespace shoal::model
