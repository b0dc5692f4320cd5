#include "model/families/model_spec.h"

#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/status.h"

namespace shoal::model {
namespace {

constexpr std::string_view kLayerPrefix = "layer.";
constexpr char kSharedPart[] = "shared";

using Tensors = TensorSpecs;

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
  const std::int64_t width = embedding.width(hidden);
  Add(embedding.tokens, width, &tensors);
  Add(embedding.positions, width, &tensors);
  Add(embedding.types, width, &tensors);
  if (embedding.projection) Add(*embedding.projection, &tensors);
  Add(embedding.norm, &tensors);
  return tensors;
}

Tensors SharedPartTensors(const ModelSpec& spec) {
  Tensors tensors;
  if (!spec.relative) return tensors;
  Add(spec.relative->table, spec.hidden, &tensors);
  Add(spec.relative->norm, &tensors);
  return tensors;
}

// Products over the table's rows that have weights of their own.
std::vector<LinearSpec> PositionProducts(const AttentionSpec& attention) {
  std::vector<LinearSpec> products;
  if (!attention.disentangled) return products;
  for (const auto* product :
       {&attention.disentangled->position_key, &attention.disentangled->position_query}) {
    if (*product && !(*product)->weight.empty()) products.push_back(**product);
  }
  return products;
}

Tensors LayerTensors(const LayerSpec& layer) {
  Tensors tensors;
  for (const auto* norm :
       {&layer.attention_norm, &layer.attention_out_norm, &layer.feed_forward_norm,
        &layer.feed_forward_out_norm, &layer.attention.query_norm, &layer.attention.key_norm}) {
    Add(*norm, &tensors);
  }
  for (const LinearSpec& input : layer.attention.inputs) Add(input, &tensors);
  for (const LinearSpec& product : PositionProducts(layer.attention)) Add(product, &tensors);
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

// Null for a part that is no layer of the model.
const LayerSpec* FindLayer(const std::vector<LayerSpec>& layers, const std::string& part) {
  if (!part.starts_with(kLayerPrefix)) return nullptr;
  const std::string_view number = std::string_view(part).substr(kLayerPrefix.size());
  std::size_t layer = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), layer);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  // "01" is no name of a part.
  if (!whole || layer >= layers.size() || number != std::to_string(layer)) return nullptr;
  return &layers[layer];
}

// As Kaiming He's uniform rule with a = sqrt(5), which PEFT takes: B is zero, so that the first
// step starts from the model as it is.
void AddLora(const LinearSpec& linear, Tensors* tensors) {
  if (!linear.lora) return;
  const LoraSpec& lora = *linear.lora;
  (*tensors)[lora.a] = {
      {lora.rank, linear.in}, 0, 0, 1 / std::sqrt(static_cast<double>(linear.in))};
  (*tensors)[lora.b] = {{linear.out, lora.rank}, 0, 0};
}

std::uint64_t SumOf(const Tensors& tensors) {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) total += ValuesOf(tensor);
  return total;
}

}  // namespace

std::vector<std::uint32_t> SharingStages(SharedBy by, std::uint32_t stages) {
  if (by == SharedBy::kNone || stages < 2) return {};
  if (by == SharedBy::kEnds) return {0, stages - 1};
  std::vector<std::uint32_t> all(stages);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

std::set<std::string> ModelSpec::SharedTensors() const {
  std::set<std::string> names;
  for (const auto& [name, tensor] : TrainedTensors(kSharedPart)) names.insert(name);
  if (trains_tied_head()) names.insert(embedding.tokens.weight);
  return names;
}

SharedBy ModelSpec::shared_by() const {
  SHOAL_CHECK(!relative || !tied_head());
  if (trains_tied_head()) return SharedBy::kEnds;
  return SharedTensors().empty() ? SharedBy::kNone : SharedBy::kAll;
}

std::vector<std::string> ModelSpec::PartNames() const {
  std::vector<std::string> names;
  if (relative) names.push_back(kSharedPart);
  names.push_back("embedding");
  for (std::size_t layer = 0; layer < layer_specs.size(); ++layer) {
    names.push_back(std::string(kLayerPrefix) + std::to_string(layer));
  }
  names.push_back("head");
  return names;
}

TensorSpecs ModelSpec::PartTensors(const std::string& part) const {
  if (part == "embedding") return EmbeddingTensors(embedding, hidden);
  if (part == "head") return HeadTensors(head);
  if (part == kSharedPart) return SharedPartTensors(*this);
  const LayerSpec* const layer = FindLayer(layer_specs, part);
  return layer == nullptr ? Tensors() : LayerTensors(*layer);
}

std::vector<LinearSpec> ModelSpec::PartProducts(const std::string& part) const {
  if (part == "head" && head.kind == HeadKind::kClassifier) return {head.pooler, head.output};
  const LayerSpec* const layer = FindLayer(layer_specs, part);
  if (layer == nullptr) return {};
  std::vector<LinearSpec> products = layer->attention.inputs;
  for (LinearSpec& product : PositionProducts(layer->attention)) {
    products.push_back(std::move(product));
  }
  products.push_back(layer->attention.output);
  products.insert(products.end(), layer->feed_forward.inputs.begin(),
                  layer->feed_forward.inputs.end());
  products.push_back(layer->feed_forward.output);
  return products;
}

TensorSpecs ModelSpec::TrainedTensors(const std::string& part) const {
  Tensors tensors = PartTensors(part);
  std::erase_if(tensors, [this](const auto& entry) { return !Trains(entry.first); });
  for (const LinearSpec& product : PartProducts(part)) AddLora(product, &tensors);
  return tensors;
}

TensorSpecs ModelSpec::FrozenTensors(const std::string& part) const {
  Tensors tensors = PartTensors(part);
  std::erase_if(tensors, [this](const auto& entry) { return Trains(entry.first); });
  return tensors;
}

std::uint64_t ModelSpec::ParametersOf(std::uint32_t first_layer, std::uint32_t last_layer,
                                      bool with_embedding, bool with_head) const {
  std::uint64_t total = SumOf(SharedPartTensors(*this));
  for (std::uint32_t layer = first_layer; layer < last_layer; ++layer) {
    total += SumOf(LayerTensors(layer_specs[layer]));
  }
  if (with_embedding) total += SumOf(EmbeddingTensors(embedding, hidden));
  if (with_head) total += SumOf(HeadTensors(head));
  if (with_embedding && with_head && tied_head()) total -= std::uint64_t{vocabulary} * hidden;
  return total;
}

std::uint64_t ModelSpec::TrainedParametersOf(std::uint32_t first_layer, std::uint32_t last_layer,
                                             bool with_embedding, bool with_head) const {
  std::uint64_t total = SumOf(TrainedTensors(kSharedPart));
  for (std::uint32_t layer = first_layer; layer < last_layer; ++layer) {
    total += SumOf(TrainedTensors(std::string(kLayerPrefix) + std::to_string(layer)));
  }
  if (with_embedding) total += SumOf(TrainedTensors("embedding"));
  if (with_head) total += SumOf(TrainedTensors("head"));
  if (with_embedding && with_head && trains_tied_head()) {
    total -= std::uint64_t{vocabulary} * hidden;
  }
  return total;
}

std::uint64_t ValuesOf(const TensorSpec& tensor) {
  std::uint64_t values = 1;
  for (const std::int64_t size : tensor.shape) values *= static_cast<std::uint64_t>(size);
  return values;
}

}  // namespace shoal::model
