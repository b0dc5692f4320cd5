// Writes an adapter as PEFT loads it. Blocks on disk. Thread: any one at a time.

#ifndef SHOAL_MODEL_EXPORTS_ADAPTER_EXPORT_H_
#define SHOAL_MODEL_EXPORTS_ADAPTER_EXPORT_H_

#include <string>

#include "common/status.h"
#include "model/families/adapter_config.h"
#include "model/families/model_spec.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

struct ExportedAdapter {
  AdapterConfig config;
  std::string base;            // what it was trained beside, as adapter_config.json says it
  storage::TensorMap tensors;  // TrainedTensors of the whole model
};

// The folder with adapter_config.json, adapter_model.safetensors and README.md. `path` must not
// exist or be empty; on an error nothing is there.
Status WriteAdapter(const ExportedAdapter& adapter, const ModelSpec& spec,
                    const std::string& model_card, const std::string& path);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_ADAPTER_EXPORT_H_
