// FrozenParameters: what a stage with adapters needs of the model and does not train, in the format
// of its files (model/quantized).
//
// Matrices stay in that format, vectors are fp32. Internal to model/: the methods throw what
// LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_FROZEN_PARAMETERS_H_
#define SHOAL_MODEL_FROZEN_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"
#include "model/stage_model.h"

namespace shoal::model {

class FrozenParameters {
 public:
  // Of the stage's parts; nothing unless the model is adapted. `bf16`: products are.
  FrozenParameters(const ModelSpec& spec, const StageRange& range, std::string device, bool bf16);

  bool empty() const { return parts_.empty(); }
  std::vector<std::string> parts() const;
  bool Has(const std::string& name) const { return tensors_.contains(name); }
  Parameter Find(const std::string& name) const;
  std::uint64_t bytes() const;

  // `tensors` may hold more than these. Shapes and formats are checked: F32, F16, BF16, and of
  // matrices int8 and nf4 as well.
  Status CheckPart(const std::string& part, const storage::TensorMap& tensors) const;
  void LoadPart(const std::string& part, const storage::TensorMap& tensors);

 private:
  struct Held {
    std::vector<std::int64_t> shape;
    std::shared_ptr<FrozenTensor> matrix;  // of two dimensions
    at::Tensor value, compute;             // of one; views that stay
  };
  const std::string device_;
  std::map<std::string, std::vector<std::string>> parts_;  // names of their tensors
  std::map<std::string, Held> tensors_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FROZEN_PARAMETERS_H_
