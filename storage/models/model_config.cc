// config.json of the GPT-2 family, and the tensors that follow from it.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/nesting.h"
#include "storage/files/foreign_text.h"
#include "storage/models/model_directory.h"

namespace shoal::storage {
namespace {

using nlohmann::json;

constexpr std::size_t kConfigDepthMax = 32;
constexpr std::uint64_t kParametersMax = 1'000'000'000'000;
constexpr std::string_view kSupported = "supported are GPT2LMHeadModel and GPT2Model";

// Reads fields of one config.json; the first failure is kept and later reads do nothing.
class ConfigReader {
 public:
  ConfigReader(const json& root, const std::string& name) : root_(root), name_(name) {}

  // A whole number in [1, most].
  std::uint32_t Count(const char* key, std::uint32_t most) {
    const json* value = Find(key);
    if (value == nullptr) {
      Fail(std::string(key) + " is missing; take the config.json that belongs to the model");
      return 0;
    }
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
        value->get<std::uint64_t>() > most) {
      Fail(std::string(key) + " must be a whole number from 1 to " + std::to_string(most));
      return 0;
    }
    return value->get<std::uint32_t>();
  }
  float Number(const char* key, float otherwise, double least, double most) {
    const json* value = Find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !(value->get<double>() >= least) ||
        !(value->get<double>() <= most)) {
      Fail(std::string(key) + " must be a number from " + json(least).dump() + " to " +
           json(most).dump());
      return otherwise;
    }
    return value->get<float>();
  }
  bool Flag(const char* key, bool otherwise) {
    const json* value = Find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) Fail(std::string(key) + " must be true or false");
    return value->is_boolean() ? value->get<bool>() : otherwise;
  }
  std::string Text(const char* key, const char* otherwise) {
    const json* value = Find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) Fail(std::string(key) + " must be a text");
    return value->is_string() ? value->get<std::string>() : otherwise;
  }
  // A field whose other values would change the arithmetic.
  void Require(const char* key, bool wanted) {
    if (Flag(key, wanted) != wanted) {
      Fail(std::string(key) + " = " + (wanted ? "false" : "true") +
           " is not supported; only models with " + (wanted ? "true" : "false") + " are");
    }
  }
  // The field, or null if it is absent or null.
  const json* Find(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }
  void Fail(const std::string& cause) {
    if (status_.ok()) status_ = InvalidArgument(name_ + ": " + cause);
  }
  const Status& status() const { return status_; }

 private:
  const json& root_;
  const std::string& name_;
  Status status_;
};

void CheckArchitecture(ConfigReader& reader) {
  const std::string type = reader.Text("model_type", "");
  std::string architecture;
  bool known = type == "gpt2";
  if (const json* list = reader.Find("architectures"); list != nullptr) {
    if (!list->is_array() || !std::all_of(list->begin(), list->end(),
                                          [](const json& item) { return item.is_string(); })) {
      return reader.Fail("architectures must be a list of texts");
    }
    for (const json& item : *list) architecture = item.get<std::string>();
    const bool named = std::any_of(list->begin(), list->end(), [](const json& item) {
      return item == "GPT2LMHeadModel" || item == "GPT2Model";
    });
    if (!list->empty()) known = named && (type.empty() || type == "gpt2");
  }
  if (known) return;
  if (type.empty() && architecture.empty()) {
    return reader.Fail("it names neither model_type nor architectures; " + std::string(kSupported));
  }
  reader.Fail("architecture " + Quoted(architecture) + " (model_type " + Quoted(type) +
              ") is not supported; " + std::string(kSupported));
}

std::uint64_t ElementsOf(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  std::uint64_t total = 0;
  for (const auto& [name, shape] : shapes) {
    std::uint64_t elements = 1;
    for (const std::int64_t dimension : shape) elements *= static_cast<std::uint64_t>(dimension);
    total += elements;
  }
  return total;
}

constexpr std::string_view kLayerPrefix = "layer.";

std::optional<std::uint32_t> LayerOf(const ModelConfig& config, const std::string& part) {
  if (!part.starts_with(kLayerPrefix)) return std::nullopt;
  const std::string digits = part.substr(kLayerPrefix.size());
  if (digits.empty() || digits.size() > 6 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  const auto layer = static_cast<std::uint32_t>(std::stoul(digits));
  if (layer >= config.layers || std::to_string(layer) != digits) return std::nullopt;
  return layer;
}

}  // namespace

Result<ModelConfig> ParseModelConfig(const std::string& text, const std::string& name) {
  SHOAL_RETURN_IF_ERROR(CheckJsonDepth(text, kConfigDepthMax, name));
  const json root = ParseJson<json>(text);
  if (root.is_discarded() || !root.is_object()) {
    return InvalidArgument(name + " is not a JSON object; take the model's own config.json");
  }
  ConfigReader reader(root, name);
  CheckArchitecture(reader);
  SHOAL_RETURN_IF_ERROR(reader.status());
  ModelConfig config;
  config.layers = reader.Count("n_layer", 4096);
  config.hidden = reader.Count("n_embd", 1u << 20);
  config.heads = reader.Count("n_head", 1u << 16);
  config.vocabulary = reader.Count("vocab_size", 1u << 28);
  const bool positions = reader.Find("n_positions") != nullptr || reader.Find("n_ctx") == nullptr;
  config.positions = reader.Count(positions ? "n_positions" : "n_ctx", 1u << 28);
  config.inner =
      reader.Find("n_inner") == nullptr ? 4 * config.hidden : reader.Count("n_inner", 1u << 22);
  const std::string activation = reader.Text("activation_function", "gelu_new");
  if (activation != "gelu_new") {
    reader.Fail("activation_function " + Quoted(activation) +
                " is not supported; supported is gelu_new");
  }
  config.layer_norm_epsilon = reader.Number("layer_norm_epsilon", 1e-5f, 0.0, 1.0);
  config.initializer_range = reader.Number("initializer_range", 0.02f, 0.0, 1e3);
  config.tied_head = reader.Flag("tie_word_embeddings", true);
  reader.Require("scale_attn_weights", true);
  reader.Require("scale_attn_by_inverse_layer_idx", false);
  reader.Require("add_cross_attention", false);
  if (config.heads != 0 && config.hidden % config.heads != 0) {
    reader.Fail("n_embd " + std::to_string(config.hidden) + " is no multiple of n_head " +
                std::to_string(config.heads));
  }
  SHOAL_RETURN_IF_ERROR(reader.status());
  // Each number alone is possible; all at their largest are 2^60 parameters.
  const std::uint64_t parameters = config.ParametersOf(0, config.layers, true, true);
  if (parameters > kParametersMax) {
    return InvalidArgument(name + " describes a model of " + std::to_string(parameters) +
                           " parameters, the limit is " + std::to_string(kParametersMax));
  }
  config.json = text;
  return config;
}

std::vector<std::string> PartNames(const ModelConfig& config) {
  std::vector<std::string> names = {"embedding"};
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    names.push_back(std::string(kLayerPrefix) + std::to_string(i));
  }
  names.push_back("head");
  return names;
}

std::map<std::string, std::vector<std::int64_t>> PartShapes(const ModelConfig& config,
                                                            const std::string& part) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t inner = config.inner;
  const std::int64_t vocabulary = config.vocabulary;
  if (part == "embedding") {
    return {{"wte.weight", {vocabulary, hidden}}, {"wpe.weight", {config.positions, hidden}}};
  }
  if (part == "head") {
    return {{"ln_f.weight", {hidden}},
            {"ln_f.bias", {hidden}},
            {config.tied_head ? "wte.weight" : "lm_head.weight", {vocabulary, hidden}}};
  }
  const std::optional<std::uint32_t> layer = LayerOf(config, part);
  if (!layer) return {};
  const std::string h = "h." + std::to_string(*layer) + ".";
  return {{h + "ln_1.weight", {hidden}},
          {h + "ln_1.bias", {hidden}},
          {h + "attn.c_attn.weight", {hidden, 3 * hidden}},
          {h + "attn.c_attn.bias", {3 * hidden}},
          {h + "attn.c_proj.weight", {hidden, hidden}},
          {h + "attn.c_proj.bias", {hidden}},
          {h + "ln_2.weight", {hidden}},
          {h + "ln_2.bias", {hidden}},
          {h + "mlp.c_fc.weight", {hidden, inner}},
          {h + "mlp.c_fc.bias", {inner}},
          {h + "mlp.c_proj.weight", {inner, hidden}},
          {h + "mlp.c_proj.bias", {hidden}}};
}

std::uint64_t ModelConfig::ParametersOf(std::uint32_t first_layer, std::uint32_t last_layer,
                                        bool embedding, bool head) const {
  std::uint64_t total = 0;
  if (last_layer > first_layer) {
    total += (last_layer - first_layer) * ElementsOf(PartShapes(*this, "layer.0"));
  }
  if (embedding) total += ElementsOf(PartShapes(*this, "embedding"));
  if (head) total += ElementsOf(PartShapes(*this, "head"));
  // One stage that has both ends keeps the shared matrix once.
  if (embedding && head && tied_head) total -= std::uint64_t{vocabulary} * hidden;
  return total;
}

}  // namespace shoal::storage
