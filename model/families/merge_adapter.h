// A model with the sums of its adapters in it: what tools that know no adapters load. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_MERGE_ADAPTER_H_
#define SHOAL_MODEL_FAMILIES_MERGE_ADAPTER_H_

#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

struct MergedPart {
  storage::TensorMap tensors;  // views of what was given, and of `made`
  std::vector<std::vector<float>> made;
};

// The part's tensors as a model directory has them. `base`: the part of the model that the adapters
// were trained beside, or what of it is frozen; `trained`: TrainedTensors of it. Both in F32, F16
// or BF16, and must outlive the result; a product with an adapter is made in F32. Data loss if a
// tensor is missing or has another shape.
Result<MergedPart> MergePart(const ModelSpec& spec, const std::string& part,
                             const storage::TensorMap& base, const storage::TensorMap& trained);

// weight += scale * B A, for a weight [out, in], or [in, out] if `in_first`. A [rank, in],
// B [out, rank], row-major.
void AddLowRank(const LinearSpec& product, std::span<const float> a, std::span<const float> b,
                std::span<float> weight);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_MERGE_ADAPTER_H_
