#include "model/families/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "common/nesting.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNamesMax = 1000;
constexpr double kAlphaMax = 1e6;

// Keys of PEFT's LoraConfig that change nothing of what a trained adapter computes.
constexpr std::string_view kHarmless[] = {"alora_invocation_tokens",
                                          "arrow_config",
                                          "auto_mapping",
                                          "base_model_name_or_path",
                                          "corda_config",
                                          "ensure_weight_tying",
                                          "eva_config",
                                          "fan_in_fan_out",
                                          "inference_mode",
                                          "init_lora_weights",
                                          "layers_pattern",
                                          "loftq_config",
                                          "lora_ga_config",
                                          "megatron_config",
                                          "megatron_core",
                                          "peft_version",
                                          "qalora_group_size",
                                          "revision",
                                          "runtime_config",
                                          "task_type",
                                          "velora_config"};

bool IsOff(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

// The module that a weight belongs to: its name without the last word.
std::string_view ModuleOf(std::string_view tensor) {
  const std::size_t dot = tensor.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : tensor.substr(0, dot);
}

// Whether PEFT takes the module for one that `wanted` names.
bool Names(std::string_view wanted, std::string_view module) {
  if (wanted == module) return true;
  return module.size() > wanted.size() && module.ends_with(wanted) &&
         module[module.size() - wanted.size() - 1] == '.';
}

// Whether `wanted` names the module or one that it is a part of.
bool NamesOneAround(std::string_view wanted, std::string_view module) {
  for (; !module.empty(); module = ModuleOf(module)) {
    if (Names(wanted, module)) return true;
  }
  return false;
}

// As in transformers' modules: with the prefix that files have.
std::string FullName(const ModelSpec& spec, std::string_view module) {
  const bool bare = std::ranges::any_of(
      spec.files.without_prefix, [&](const std::string& name) { return ModuleOf(name) == module; });
  return (bare ? "" : spec.files.prefix) + std::string(module);
}

// Of a module of a layer, what follows the layer's number; of another, all.
std::string TailOf(std::string_view module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string_view word = module.substr(begin, end - begin);
    const bool number = !word.empty() && std::all_of(word.begin(), word.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    if (number && end < module.size()) return std::string(module.substr(end + 1));
    begin = end + 1;
  }
  return std::string(module);
}

std::string Join(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class AdapterKeys {
 public:
  AdapterKeys(Json root, std::string name) : root_(std::move(root)), name_(std::move(name)) {}

  const Json* Find(const char* key) {
    read_.insert(key);
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }
  Status Fail(const std::string& cause) const { return InvalidArgument(name_ + ": " + cause); }

  Status Number(const char* key, double least, double most, double* to) {
    const Json* const value = Find(key);
    if (value == nullptr) return Status::Ok();
    if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
      return Fail(std::string(key) + " must be a number from " + Json(least).dump() + " to " +
                  Json(most).dump());
    }
    *to = value->get<double>();
    return Status::Ok();
  }
  Status Flag(const char* key, bool* to) {
    const Json* const value = Find(key);
    if (value == nullptr) return Status::Ok();
    if (!value->is_boolean()) return Fail(std::string(key) + " must be true or false");
    *to = value->get<bool>();
    return Status::Ok();
  }
  // A list of names, or the one word `word` as a text.
  Status Names(const char* key, const char* word, std::vector<std::string>* to) {
    const Json* const value = Find(key);
    if (value == nullptr) return Status::Ok();
    if (value->is_string() && word != nullptr && *value == word) {
      *to = {word};
      return Status::Ok();
    }
    if (value->is_string()) {
      return Fail(std::string(key) + " = " + storage::Quoted(value->get<std::string>()) +
                  " is a regular expression; write the modules as a list");
    }
    const bool texts = value->is_array() && value->size() <= kNamesMax &&
                       std::all_of(value->begin(), value->end(), [](const Json& item) {
                         return item.is_string() && !item.get<std::string>().empty();
                       });
    if (!texts) return Fail(std::string(key) + " must be a list of names of modules");
    *to = value->get<std::vector<std::string>>();
    return Status::Ok();
  }
  // A key that nobody read, does not know to be harmless, and that is not off.
  Status Finish() const {
    for (const auto& [key, value] : root_.items()) {
      if (read_.contains(key) || IsOff(value)) continue;
      if (std::ranges::find(kHarmless, key) != std::end(kHarmless)) continue;
      return Fail("key " + storage::Quoted(key) +
                  " is not known, and it may change what the adapter computes; remove it from "
                  "adapter_config.json if it does not");
    }
    return Status::Ok();
  }

 private:
  const Json root_;
  const std::string name_;
  std::set<std::string, std::less<>> read_;
};

Status CheckKind(AdapterKeys* keys) {
  const Json* const type = keys->Find("peft_type");
  if (type == nullptr || *type != "LORA") {
    return keys->Fail("peft_type must be \"LORA\"; other adapters are not supported");
  }
  const Json* const bias = keys->Find("bias");
  if (bias != nullptr && *bias != "none") {
    return keys->Fail("bias must be \"none\": biases stay as they are");
  }
  const Json* const start = keys->Find("init_lora_weights");
  const bool plain = start == nullptr || start->is_boolean() || *start == "gaussian";
  if (!plain) {
    return keys->Fail("init_lora_weights = " + start->dump().substr(0, 40) +
                      " may have changed the base as well; save the adapter as plain LoRA");
  }
  return Status::Ok();
}

template <typename Visit>
void VisitLayerProducts(ModelSpec* spec, const Visit& visit) {
  for (std::uint32_t layer = 0; layer < spec->layers(); ++layer) {
    AttentionSpec& attention = spec->layer_specs[layer].attention;
    FeedForwardSpec& feed_forward = spec->layer_specs[layer].feed_forward;
    std::uint32_t place = 0;
    for (LinearSpec& input : attention.inputs) visit(layer, place++, &input);
    if (attention.disentangled) {
      for (auto* product :
           {&attention.disentangled->position_key, &attention.disentangled->position_query}) {
        if (*product && !(*product)->weight.empty()) visit(layer, place++, &**product);
      }
    }
    visit(layer, place++, &attention.output);
    for (LinearSpec& input : feed_forward.inputs) visit(layer, place++, &input);
    visit(layer, place++, &feed_forward.output);
  }
}

// Which of `wanted` name nothing among `tails`.
Status CheckAllFound(const std::vector<std::string>& wanted, const std::set<std::string>& found,
                     const char* what, const std::set<std::string>& tails) {
  for (const std::string& name : wanted) {
    if (name == kAllLinear || found.contains(name)) continue;
    return InvalidArgument(std::string(what) + ": the model has no module " +
                           storage::Quoted(name) + "; it has " + Join(tails));
  }
  return Status::Ok();
}

Status AddAdapters(const AdapterConfig& config, ModelSpec* spec) {
  std::set<std::string> found, tails;
  VisitLayerProducts(spec, [&](std::uint32_t layer, std::uint32_t place, LinearSpec* product) {
    const std::string_view module = ModuleOf(product->weight);
    const std::string full = FullName(*spec, module);
    tails.insert(TailOf(module));
    bool wanted = false;
    for (const std::string& target : config.targets) {
      if (target != kAllLinear && !Names(target, full)) continue;
      wanted = true;
      found.insert(target);
    }
    if (!wanted) return;
    const std::string name(module);
    product->lora = LoraSpec{name + ".lora_A.weight",
                             name + ".lora_B.weight",
                             config.rank,
                             config.scale(),
                             config.dropout,
                             layer,
                             place};
  });
  return CheckAllFound(config.targets, found, "targets", tails);
}

// Names of tensors to train in full.
Status AddSaved(const AdapterConfig& config, ModelSpec* spec) {
  std::set<std::string> found, tails;
  for (const std::string& part : spec->PartNames()) {
    for (const auto& [tensor, described] : spec->PartTensors(part)) {
      const std::string_view module = ModuleOf(tensor);
      const std::string full = FullName(*spec, module);
      tails.insert(TailOf(module));
      for (const std::string& wanted : config.modules_to_save) {
        if (!NamesOneAround(wanted, full)) continue;
        found.insert(wanted);
        spec->trained.insert(tensor);
      }
    }
  }
  if (spec->head.kind == HeadKind::kClassifier) {
    // PEFT names both for every classifier, whatever the model calls its own.
    found.insert({"classifier", "score"});
  }
  return CheckAllFound(config.modules_to_save, found, "modules_to_save", tails);
}

Status CheckNoProductTwice(const ModelSpec& spec) {
  for (const std::string& part : spec.PartNames()) {
    for (const LinearSpec& product : spec.PartProducts(part)) {
      if (!product.lora || !spec.trained.contains(product.weight)) continue;
      return InvalidArgument("module " + std::string(ModuleOf(product.weight)) +
                             " has an adapter and is one of modules_to_save; take one of the two");
    }
  }
  return Status::Ok();
}

}  // namespace

double AdapterConfig::scale() const { return alpha / (rslora ? std::sqrt(rank) : rank); }

Result<AdapterConfig> ParseAdapterConfig(const std::string& json, const std::string& name) {
  SHOAL_RETURN_IF_ERROR(storage::CheckJsonDepth(json, kJsonDepthMax, name));
  SHOAL_RETURN_IF_ERROR(storage::CheckRepeatedKeys(json, name));
  Json root = ParseJson<Json>(json);
  if (!root.is_object()) {
    return InvalidArgument(name + " is not a JSON object; take the adapter's own file again");
  }
  AdapterKeys keys(std::move(root), name);
  SHOAL_RETURN_IF_ERROR(CheckKind(&keys));
  AdapterConfig config;
  double rank = 8;  // PEFT's own defaults, where a file is silent
  config.alpha = 8;
  SHOAL_RETURN_IF_ERROR(keys.Number("r", 1, kAdapterRankMax, &rank));
  if (rank != std::floor(rank)) return keys.Fail("r must be a whole number");
  config.rank = static_cast<std::uint32_t>(rank);
  SHOAL_RETURN_IF_ERROR(keys.Number("lora_alpha", 1e-6, kAlphaMax, &config.alpha));
  SHOAL_RETURN_IF_ERROR(keys.Number("lora_dropout", 0, 0.99, &config.dropout));
  SHOAL_RETURN_IF_ERROR(keys.Flag("use_rslora", &config.rslora));
  config.targets.clear();
  SHOAL_RETURN_IF_ERROR(keys.Names("target_modules", kAllLinear, &config.targets));
  if (config.targets.empty()) return keys.Fail("target_modules names no modules");
  SHOAL_RETURN_IF_ERROR(keys.Names("modules_to_save", nullptr, &config.modules_to_save));
  SHOAL_RETURN_IF_ERROR(keys.Finish());
  return config;
}

void SaveClassifier(const ModelSpec& spec, AdapterConfig* config) {
  if (spec.head.kind != HeadKind::kClassifier) return;
  for (const auto& [tensor, described] : spec.PartTensors("head")) {
    const std::string module(ModuleOf(tensor));
    if (std::ranges::find(config->modules_to_save, module) == config->modules_to_save.end()) {
      config->modules_to_save.push_back(module);
    }
  }
}

Status Adapt(const AdapterConfig& config, ModelSpec* spec) {
  SHOAL_CHECK(!spec->adapted && config.rank > 0);
  spec->adapted = true;
  SHOAL_RETURN_IF_ERROR(AddAdapters(config, spec));
  SHOAL_RETURN_IF_ERROR(AddSaved(config, spec));
  return CheckNoProductTwice(*spec);
}

std::string AdapterFileName(const ModelSpec& spec, const std::string& tensor) {
  const std::string_view module = ModuleOf(tensor);
  return "base_model.model." + FullName(spec, module) + tensor.substr(module.size());
}

std::string FormatAdapterConfig(const AdapterConfig& config, const ModelSpec& spec,
                                const std::string& base) {
  std::set<std::string> targets, saved;
  bool in_first = false;
  for (const std::string& part : spec.PartNames()) {
    for (const LinearSpec& product : spec.PartProducts(part)) {
      if (!product.lora) continue;
      targets.insert(TailOf(ModuleOf(product.weight)));
      in_first = in_first || product.in_first;
    }
  }
  for (const std::string& tensor : spec.trained) saved.insert(std::string(ModuleOf(tensor)));
  const bool classifier = spec.head.kind == HeadKind::kClassifier;
  Json json = Json::object();
  json["base_model_name_or_path"] = base;
  json["bias"] = "none";
  json["fan_in_fan_out"] = in_first;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  json["lora_alpha"] = config.alpha;
  json["lora_dropout"] = config.dropout;
  json["modules_to_save"] = saved.empty() ? Json() : Json(saved);
  json["peft_type"] = "LORA";
  json["r"] = config.rank;
  json["target_modules"] = targets;
  json["task_type"] = classifier ? "SEQ_CLS" : "CAUSAL_LM";
  json["use_rslora"] = config.rslora;
  if (config.alpha == std::floor(config.alpha)) {
    json["lora_alpha"] = static_cast<std::uint64_t>(config.alpha);
  }
  return json.dump(2) + "\n";
}

}  // namespace shoal::model
