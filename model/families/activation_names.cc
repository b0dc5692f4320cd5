#include <array>
#include <utility>

#include "model/families/families.h"

namespace shoal::model {
namespace {

constexpr std::array<std::pair<const char*, Activation>, 7> kNames = {
    {{"gelu", Activation::kGelu},
     {"gelu_new", Activation::kGeluTanh},
     {"gelu_pytorch_tanh", Activation::kGeluTanh},
     {"gelu_fast", Activation::kGeluTanh},
     {"silu", Activation::kSilu},
     {"swish", Activation::kSilu},
     {"relu", Activation::kRelu}}};

}  // namespace

std::optional<Activation> ActivationOf(const std::string& name) {
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

std::string ActivationNames() {
  std::string names;
  for (const auto& [name, activation] : kNames)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace shoal::model
