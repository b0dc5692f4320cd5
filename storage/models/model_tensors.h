// ModelTensors: all tensors of a model, each once, as views into mapped files.

#ifndef SHOAL_STORAGE_MODELS_MODEL_TENSORS_H_
#define SHOAL_STORAGE_MODELS_MODEL_TENSORS_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "storage/models/model_directory.h"

namespace shoal::storage {

struct NamedTensor {
  std::string name;  // canonical
  TensorView view;   // F32, F16 or BF16, in the layout's shape
};

struct ModelTensors {
  std::vector<NamedTensor> list;                    // by part, in a part by name
  std::vector<std::shared_ptr<const void>> owners;  // of what the views show

  const TensorView* Find(const std::string& name) const;
};

// Of artefacts in the layout's order, checked against it. A tensor that two parts have must have
// the same bytes in both: else data loss.
Result<ModelTensors> OpenParts(const ModelLayout& layout, std::span<const std::string> part_files);

Result<ModelTensors> TensorsOf(std::shared_ptr<const ModelDirectory> directory);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_MODEL_TENSORS_H_
