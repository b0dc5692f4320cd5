// Tensors of files: which parts a stage loads, whether a file fits, and the way into LibTorch.
//
// Internal to model/; ToTensor throws what LibTorch throws. Thread: any.

#ifndef SHOAL_MODEL_FILE_TENSORS_H_
#define SHOAL_MODEL_FILE_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "model/stage_model.h"
#include "storage/models/model_directory.h"

namespace at {
class Tensor;
}

namespace shoal::model {

// The parts that a stage hosts, out of all parts of the model.
std::vector<std::string> StageParts(const ModelSpec& spec, const StageRange& range);

// The tensor is there, of that shape, in F32, F16 or BF16, or in F32 if `only_fp32`.
Status CheckFileTensor(const storage::TensorMap& tensors, const std::string& name,
                       const std::vector<std::int64_t>& shape, bool only_fp32);

// As a flat tensor on the CPU, in the file's format; a copy, because file bytes may be unaligned.
at::Tensor ToTensor(const storage::TensorView& view);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FILE_TENSORS_H_
