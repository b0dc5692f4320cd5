#include "model/families/model_spec.h"

#include <string_view>
#include <utility>

namespace shoal::model {
namespace {

constexpr std::string_view kLayerPrefix = "layer.";

using Tensors = std::map<std::string, TensorSpec>;

void Add(const LinearSpec& linear, Tensors* tensors) {
  (*tensors)[linear.weight] = {
      linear.in_first ? std::vector{linear.in, linear.out} : std::vector{linear.out, linear.in},
      linear.deviation, 0};
  if (!linear.bias.empty()) (*tensors)[linear.bias] = {{linear.out}, 0, 0};
}

void Add(const std::optional<NormSpec>& norm, Tensors* tensors) {
  if (!norm) return;
  (*tensors)[norm->weight] = {{norm->size}, 0, norm->around_one ? 0.0F : 1.0F};
  if (!norm->bias.empty()) (*tensors)[norm->bias] = {{norm->size}, 0, 0};
}

void Add(const std::optional<TableSpec>& table, std::int64_t hidden, Tensors* tensors) {
  if (table) (*tensors)[table->weight] = {{table->rows, hidden}, table->deviation, 0};
}

Tensors EmbeddingTensors(const EmbeddingSpec& embedding, std::int64_t hidden) {
  Tensors tensors;
  Add(embedding.tokens, hidden, &tensors);
  Add(embedding.positions, hidden, &tensors);
  Add(embedding.types, hidden, &tensors);
  Add(embedding.norm, &tensors);
  return tensors;
}

Tensors LayerTensors(const LayerSpec& layer) {
  Tensors tensors;
  for (const auto* norm :
       {&layer.attention_norm, &layer.attention_out_norm, &layer.feed_forward_norm,
        &layer.feed_forward_out_norm, &layer.attention.query_norm, &layer.attention.key_norm}) {
    Add(*norm, &tensors);
  }
  for (const LinearSpec& input : layer.attention.inputs) Add(input, &tensors);
  Add(layer.attention.output, &tensors);
  for (const LinearSpec& input : layer.feed_forward.inputs) Add(input, &tensors);
  Add(layer.feed_forward.output, &tensors);
  return tensors;
}

Tensors HeadTensors(const HeadSpec& head) {
  Tensors tensors;
  Add(head.norm, &tensors);
  if (head.kind == HeadKind::kClassifier) Add(head.pooler, &tensors);
  Add(head.output, &tensors);
  return tensors;
}

std::uint64_t ValuesOf(const Tensors& tensors) {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) {
    std::uint64_t values = 1;
    for (const std::int64_t size : tensor.shape) values *= static_cast<std::uint64_t>(size);
    total += values;
  }
  return total;
}

}  // namespace

std::vector<std::string> ModelSpec::PartNames() const {
  std::vector<std::string> names = {"embedding"};
  for (std::size_t layer = 0; layer < layer_specs.size(); ++layer) {
    names.push_back(std::string(kLayerPrefix) + std::to_string(layer));
  }
  names.push_back("head");
  return names;
}

std::map<std::string, TensorSpec> ModelSpec::PartTensors(const std::string& part) const {
  if (part == "embedding") return EmbeddingTensors(embedding, hidden);
  if (part == "head") return HeadTensors(head);
  for (std::size_t layer = 0; layer < layer_specs.size() && part.starts_with(kLayerPrefix);
       ++layer) {
    if (part.substr(kLayerPrefix.size()) == std::to_string(layer)) {
      return LayerTensors(layer_specs[layer]);
    }
  }
  return {};
}

std::uint64_t ModelSpec::ParametersOf(std::uint32_t first_layer, std::uint32_t last_layer,
                                      bool with_embedding, bool with_head) const {
  std::uint64_t total = 0;
  for (std::uint32_t layer = first_layer; layer < last_layer; ++layer) {
    total += ValuesOf(LayerTensors(layer_specs[layer]));
  }
  if (with_embedding) total += ValuesOf(EmbeddingTensors(embedding, hidden));
  if (with_head) total += ValuesOf(HeadTensors(head));
  if (with_embedding && with_head && tied_head()) total -= std::uint64_t{vocabulary} * hidden;
  return total;
}

}  // namespace shoal::model
