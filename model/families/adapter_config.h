// AdapterConfig: low-rank adapters of a model's products (Hu et al., "LoRA", 2022), as the file
// adapter_config.json of PEFT describes them. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_ADAPTER_CONFIG_H_
#define SHOAL_MODEL_FAMILIES_ADAPTER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"

namespace shoal::model {

inline constexpr const char* kAllLinear = "all-linear";
inline constexpr std::uint32_t kAdapterRankMax = 4096;

struct AdapterConfig {
  std::uint32_t rank = 16;
  double alpha = 32;
  bool rslora = false;  // divides alpha by the root of the rank (Kalajdzievski, 2023)
  double dropout = 0;   // of what goes into an adapter; in [0, 1)
  // Ends of names of modules, or kAllLinear: every product of the layers.
  std::vector<std::string> targets = {kAllLinear};
  // Ends of names of modules that are trained themselves, beside the adapters.
  std::vector<std::string> modules_to_save;

  double scale() const;
  bool operator==(const AdapterConfig&) const = default;
};

// `name`: of the file, for messages. A key that changes what an adapter computes and that nobody
// here computes is refused by name.
Result<AdapterConfig> ParseAdapterConfig(const std::string& json, const std::string& name);

// Adds a classifier's head to modules_to_save: it is new, and adapters below cannot stand in for
// it.
void SaveClassifier(const ModelSpec& spec, AdapterConfig* config);

// Gives the model's products their adapters and leaves the rest of it as it is. A target or module
// that the model does not have is an invalid argument.
Status Adapt(const AdapterConfig& config, ModelSpec* spec);

// adapter_config.json of an adapted model, for PEFT. `base`: what base_model_name_or_path says.
std::string FormatAdapterConfig(const AdapterConfig& config, const ModelSpec& spec,
                                const std::string& base);

// A tensor of TrainedTensors in PEFT's files: "base_model.model.", the prefix that the model's
// files have, the name.
std::string AdapterFileName(const ModelSpec& spec, const std::string& tensor);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_ADAPTER_CONFIG_H_
