// An adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_OPEN_ADAPTER_H_
#define SHOAL_MODEL_FAMILIES_OPEN_ADAPTER_H_

#include <memory>
#include <string>

#include "common/status.h"
#include "model/families/adapter_config.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

inline constexpr const char* kAdapterConfigName = "/adapter_config.json";
inline constexpr const char* kAdapterWeightsName = "/adapter_model.safetensors";

struct OpenedAdapter {
  AdapterConfig config;
  std::shared_ptr<const storage::SafetensorsFile> file;  // keeps the views below
};

Result<OpenedAdapter> OpenAdapter(const std::string& folder);

// The adapter's tensors by the names of `spec`, which Adapt changed by its config. Invalid argument
// if one is missing, has another shape or format (F32, F16, BF16), or belongs to no module of the
// model: then it is an adapter of another base. `folder`: for messages.
Result<storage::TensorMap> AdapterTensors(const OpenedAdapter& adapter, const ModelSpec& spec,
                                          const std::string& folder);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_OPEN_ADAPTER_H_
