#include "model/families/config_keys.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/nesting.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

using nlohmann::json;

constexpr std::size_t kDepthMax = 32;

// What tells of a model's origin, of generation, of how it is saved, of dropout (a run's own) or of
// heads for other tasks.
constexpr std::string_view kHarmless[] = {"_name_or_path",
                                          "_attn_implementation_autoset",
                                          "architectures",
                                          "attention_dropout",
                                          "attention_probs_dropout_prob",
                                          "attn_pdrop",
                                          "bos_token_id",
                                          "cache_implementation",
                                          "classifier_dropout",
                                          "dtype",
                                          "embd_pdrop",
                                          "eos_token_id",
                                          "finetuning_task",
                                          "gradient_checkpointing",
                                          "hidden_dropout_prob",
                                          "id2label",
                                          "initializer_range",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "model_type",
                                          "num_labels",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_past",
                                          "pad_token_id",
                                          "problem_type",
                                          "resid_pdrop",
                                          "return_dict",
                                          "task_specific_params",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "unk_token_id",
                                          "unsloth_fixed",
                                          "unsloth_version",
                                          "use_cache"};

// A switch that is off, or a list of nothing, asks for nothing.
bool IsOff(const json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

}  // namespace

// Objects inside of the file share the failure and the text.
struct ConfigKeys::State {
  struct Shared {
    std::string name;
    json root;
    Status status;
    std::set<std::string> read;                 // whole keys, "rope_scaling.factor"
    std::map<std::string, const json*> opened;  // by path, "rope_scaling."
  };
  std::shared_ptr<Shared> shared;
  const json* object = nullptr;
  std::string path;  // "" or "rope_scaling."

  std::string Whole(std::string_view key) const { return path + std::string(key); }
  const json* Read(const char* key) const {
    shared->read.insert(Whole(key));
    const auto found = object->find(key);
    return found == object->end() || found->is_null() ? nullptr : &*found;
  }
};

ConfigKeys::ConfigKeys(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConfigKeys::~ConfigKeys() = default;
ConfigKeys::ConfigKeys(ConfigKeys&&) noexcept = default;

Result<ConfigKeys> ConfigKeys::Parse(const std::string& text, const std::string& name) {
  SHOAL_RETURN_IF_ERROR(storage::CheckJsonDepth(text, kDepthMax, name));
  SHOAL_RETURN_IF_ERROR(storage::CheckRepeatedKeys(text, name));
  auto state = std::make_unique<State>();
  state->shared = std::make_shared<State::Shared>();
  state->shared->name = name;
  state->shared->root = ParseJson<json>(text);
  if (state->shared->root.is_discarded() || !state->shared->root.is_object()) {
    return InvalidArgument(name + " is not a JSON object; take the model's own config.json");
  }
  state->object = &state->shared->root;
  return ConfigKeys(std::move(state));
}

bool ConfigKeys::Has(const char* key) const {
  const auto found = state_->object->find(key);
  return found != state_->object->end() && !found->is_null();
}

bool ConfigKeys::IsNull(const char* key) const {
  const auto found = state_->object->find(key);
  return found != state_->object->end() && found->is_null();
}

bool ConfigKeys::IsText(const char* key) const {
  const auto found = state_->object->find(key);
  return found != state_->object->end() && found->is_string();
}

std::uint32_t ConfigKeys::Count(const char* key, std::uint32_t most) {
  if (Has(key)) return Count(key, most, 1);
  Fail(state_->Whole(key) + " is missing; take the config.json that belongs to the model");
  return 1;
}

std::uint32_t ConfigKeys::Count(const char* key, std::uint32_t most, std::uint32_t otherwise) {
  const json* value = state_->Read(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
      value->get<std::uint64_t>() > most) {
    Fail(state_->Whole(key) + " must be a whole number from 1 to " + std::to_string(most));
    return 1;
  }
  return value->get<std::uint32_t>();
}

double ConfigKeys::Number(const char* key, double otherwise, double least, double most) {
  const json* value = state_->Read(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || !(value->get<double>() >= least) || !(value->get<double>() <= most)) {
    Fail(state_->Whole(key) + " must be a number from " + json(least).dump() + " to " +
         json(most).dump());
    return otherwise;
  }
  return value->get<double>();
}

bool ConfigKeys::Flag(const char* key, bool otherwise) {
  const json* value = state_->Read(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    Fail(state_->Whole(key) + " must be true or false");
    return otherwise;
  }
  return value->get<bool>();
}

std::string ConfigKeys::Text(const char* key, const std::string& otherwise) {
  const json* value = state_->Read(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    Fail(state_->Whole(key) + " must be a text");
    return otherwise;
  }
  return value->get<std::string>();
}

std::vector<std::string> ConfigKeys::Texts(const char* key) {
  const json* value = state_->Read(key);
  if (value == nullptr) return {};
  const bool texts =
      value->is_array() &&
      std::all_of(value->begin(), value->end(), [](const json& item) { return item.is_string(); });
  if (!texts) Fail(state_->Whole(key) + " must be a list of texts");
  return texts ? value->get<std::vector<std::string>>() : std::vector<std::string>();
}

std::uint32_t ConfigKeys::Entries(const char* key, std::uint32_t most) {
  const json* value = state_->Read(key);
  if (value == nullptr) return 0;
  if (!value->is_object() || value->size() > most) {
    Fail(state_->Whole(key) + " must be an object of at most " + std::to_string(most) + " keys");
    return 0;
  }
  return static_cast<std::uint32_t>(value->size());
}

ConfigKeys ConfigKeys::Object(const char* key) {
  static const json empty = json::object();
  auto inner = std::make_unique<State>();
  inner->shared = state_->shared;
  inner->path = state_->Whole(key) + ".";
  const json* value = state_->Read(key);
  inner->object = value == nullptr || !value->is_object() ? &empty : value;
  if (value != nullptr && !value->is_object()) Fail(state_->Whole(key) + " must be an object");
  state_->shared->opened[inner->path] = inner->object;
  return ConfigKeys(std::move(inner));
}

void ConfigKeys::Require(const char* key, bool wanted) {
  if (Flag(key, wanted) == wanted) return;
  Fail(state_->Whole(key) + " = " + (wanted ? "false" : "true") +
       " is not supported; only models with " + (wanted ? "true" : "false") + " are");
}

void ConfigKeys::Ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) state_->shared->read.insert(state_->Whole(key));
}

void ConfigKeys::Fail(const std::string& cause) {
  if (status().ok()) state_->shared->status = InvalidArgument(state_->shared->name + ": " + cause);
}

const Status& ConfigKeys::status() const { return state_->shared->status; }

Status ConfigKeys::Finish() {
  State::Shared& shared = *state_->shared;
  const auto check = [&](const json& object, const std::string& path) {
    for (const auto& [key, value] : object.items()) {
      if (shared.read.contains(path + key) || IsOff(value)) continue;
      if (path.empty() && std::ranges::find(kHarmless, key) != std::end(kHarmless)) continue;
      Fail("key " + storage::Quoted(path + key) +
           " is not known for this family, and it may change what the model computes; remove it "
           "from config.json if it does not");
    }
  };
  check(shared.root, "");
  for (const auto& [path, object] : shared.opened) check(*object, path);
  return shared.status;
}

}  // namespace shoal::model
