#include <array>
#include <utility>

#include "model/families/families.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr std::array<std::pair<const char*, Activation>, 8> kNames = {
    {{"gelu", Activation::kGelu},
     {"gelu_new", Activation::kGeluTanh},
     {"gelu_pytorch_tanh", Activation::kGeluTanh},
     {"gelu_fast", Activation::kGeluTanh},
     {"silu", Activation::kSilu},
     {"swish", Activation::kSilu},
     {"relu", Activation::kRelu},
     {"tanh", Activation::kTanh}}};

std::string ActivationNames() {
  std::string names;
  for (const auto& [name, activation] : kNames)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace

Activation ReadActivation(ConfigKeys* keys, const char* key, const char* otherwise) {
  const std::string name = keys->Text(key, otherwise);
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  keys->Fail(std::string(key) + " " + storage::Quoted(name) + " is not supported; supported are " +
             ActivationNames());
  return Activation::kGelu;
}

}  // namespace shoal::model
