#include "model/unit_uses.h"

#include <string>

#include "model/gpt2_head.h"

namespace shoal::model {
namespace {

using Units = std::vector<std::size_t>;

// What the head did not keep of the forward it makes again, from its weights.
bool KeepsLogits(const storage::ModelConfig& config, const StageOptions& options,
                 MicroBatchShape shape) {
  const std::uint64_t value = options.compute == "bf16" ? 2 : sizeof(float);
  return std::uint64_t{shape.rows} * shape.tokens * config.vocabulary * value <=
         Gpt2Head::kKeptLogitBytes;
}

}  // namespace

std::vector<UnitUse> UnitUses(const FlatParameters& parameters, const storage::ModelConfig& config,
                              const StageOptions& options, Pass pass, MicroBatchShape shape) {
  const StageRange& range = options.range;
  const bool first = range.first_layer == 0, last = range.last_layer == config.layers;
  Units embedding, head;
  if (first) embedding = {parameters.UnitOf("wpe.weight"), parameters.UnitOf("wte.weight")};
  if (last) {
    head = {parameters.UnitOf("ln_f.weight"),
            parameters.UnitOf(config.tied_head ? "wte.weight" : "lm_head.weight")};
    if (head[0] == head[1]) head.pop_back();
  }
  std::vector<Units> layers;
  for (std::uint32_t layer = range.first_layer; layer < range.last_layer; ++layer) {
    layers.push_back({parameters.UnitOf("h." + std::to_string(layer) + ".attn.c_attn.weight")});
  }
  std::vector<UnitUse> uses;
  if (pass == Pass::kForward || (pass == Pass::kBackwardInput && options.recompute)) {
    if (first) uses.push_back({embedding, {}});
    for (const Units& layer : layers) uses.push_back({layer, {}});
    if (last) uses.push_back({head, {}});
  }
  if (pass == Pass::kForward) return uses;
  const bool weights = pass == Pass::kBackwardWeights;
  if (last && weights) {
    uses.push_back({KeepsLogits(config, options, shape) ? Units() : head, head});
  } else if (last) {
    uses.push_back({head, {}});
  }
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    uses.push_back(weights ? UnitUse{{}, *layer} : UnitUse{*layer, {}});
  }
  if (first && weights) uses.push_back({{}, embedding});
  return uses;
}

}  // namespace shoal::model
