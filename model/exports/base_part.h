// The part of a model that adapters leave as it is, in the format that a run keeps it in. Thread:
// any.

#ifndef SHOAL_MODEL_EXPORTS_BASE_PART_H_
#define SHOAL_MODEL_EXPORTS_BASE_PART_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "model/families/model_spec.h"
#include "model/quantized/encode_weight.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

struct BasePart {
  storage::TensorMap tensors;  // views of what was given, and of `encoded`
  std::vector<std::vector<EncodedTensor>> encoded;
};

// `format`: "source", or a name of WeightFormat. As in QLoRA, codes are for the products of layers;
// embedding and head are bf16 then, or stay fp16. Vectors stay as they are. `given`: the part as a
// model directory has it; must outlive the result.
Result<BasePart> EncodeBase(const ModelSpec& spec, const std::string& part,
                            const storage::TensorMap& given, const std::string& format);

// Bytes that the tensors take then. Nothing is encoded.
Result<std::uint64_t> BaseBytes(const ModelSpec& spec, const std::string& part,
                                const storage::TensorMap& given, const std::string& format);

// The same tensors again in F32, F16 or BF16, codes decoded. `base` must outlive the result.
struct DecodedPart {
  storage::TensorMap tensors;
  std::vector<std::vector<float>> decoded;
};
Result<DecodedPart> DecodeBase(const ModelSpec& spec, const std::string& part,
                               const storage::TensorMap& base);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_BASE_PART_H_
