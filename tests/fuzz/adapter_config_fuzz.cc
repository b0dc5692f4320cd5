// adapter_config.json: what is accepted adapts a model, or is refused for it, and is read again as
// it is written.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/families/adapter_config.h"
#include "model/families/family.h"

namespace {

const shoal::model::ModelSpec& Model() {
  static const shoal::model::ModelSpec spec =
      shoal::model::ParseModelSpec(
          R"({"model_type": "llama", "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2,
              "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 16})",
          "the model")
          .value();
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = shoal::model::ParseAdapterConfig(text, "fuzz");
  if (!config.ok()) return 0;
  shoal::model::ModelSpec spec = Model();
  if (!shoal::model::Adapt(*config, &spec).ok()) return 0;
  if (spec.TrainedParametersOf(0, spec.layers(), true, true) == 0) abort();
  const auto again = shoal::model::ParseAdapterConfig(
      shoal::model::FormatAdapterConfig(*config, spec, "base"), "written");
  if (!again.ok() || again->rank != config->rank || again->scale() != config->scale()) abort();
  shoal::model::ModelSpec same = Model();
  if (!shoal::model::Adapt(*again, &same).ok()) abort();
  for (const std::string& part : spec.PartNames()) {
    if (spec.TrainedTensors(part).size() != same.TrainedTensors(part).size()) abort();
  }
  return 0;
}
