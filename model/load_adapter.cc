#include "model/load_adapter.h"

#include <ATen/core/Tensor.h>

#include <span>

#include "model/file_tensors.h"
#include "model/torch_guard.h"

namespace shoal::model {

Status LoadAdapter(const storage::TensorMap& tensors, StageModel* stage) {
  for (const TensorLayout& place : stage->layout()) {
    const std::vector<std::int64_t> shape(place.shape.begin(), place.shape.end());
    SHOAL_RETURN_IF_ERROR(CheckFileTensor(tensors, place.name, shape, false));
    SHOAL_RETURN_IF_ERROR(Guard("loading the adapter", [&] {
      const at::Tensor values = ToTensor(tensors.at(place.name)).to(at::kFloat);
      return stage->Write(StateVector::kWeights, place.offset,
                          {values.const_data_ptr<float>(), place.size});
    }));
  }
  return Status::Ok();
}

}  // namespace shoal::model
