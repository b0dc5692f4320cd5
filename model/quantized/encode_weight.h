// One weight as the tensors that a safetensors file holds of it. Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_ENCODE_WEIGHT_H_
#define SHOAL_MODEL_QUANTIZED_ENCODE_WEIGHT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/quantized/weight_format.h"
#include "storage/models/tensor_view.h"

namespace shoal::model {

struct EncodedTensor {
  StoredTensor stored;
  std::vector<std::byte> bytes;

  // Valid while the object lives and does not move.
  storage::TensorView View() const { return {stored.dtype, stored.shape, bytes}; }
};

// `weight` (F32, F16 or BF16, its bytes as long as its shape says) in `format`: the tensors of
// StoredTensors. Values that are not finite, beyond kWeightMax, or beyond fp16 in that format, are
// an invalid argument with the tensor's name. Besides the result it takes 64 KiB, and for
// int8 a row at least.
Result<std::vector<EncodedTensor>> EncodeWeight(const std::string& name,
                                                const storage::TensorView& weight,
                                                WeightFormat format);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_ENCODE_WEIGHT_H_
