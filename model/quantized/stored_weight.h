// StoredWeight: one weight of a frozen base as a file holds it, checked, and decoded piece by piece
// where it is used. Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_STORED_WEIGHT_H_
#define SHOAL_MODEL_QUANTIZED_STORED_WEIGHT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/quantized/int8.h"
#include "model/quantized/nf4.h"
#include "model/quantized/weight_format.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

// Views into bytes that must outlive it.
struct StoredWeight {
  WeightFormat format = WeightFormat::kFp32;
  std::vector<std::int64_t> shape;
  std::size_t values = 0;
  // Names of the tensors that hold it, its own first.
  std::vector<std::string> names;
  std::span<const std::byte> floats;  // fp32, bf16 and fp16
  Int8View int8;                      // of that format alone
  Nf4View nf4;                        // of that format alone

  // Values [first, first + out.size()) as fp32, counted row by row; any range will do. Finite, but
  // for fp32, bf16 and fp16, whose values nobody has looked at.
  void Decode(std::size_t first, std::span<float> out) const;
};

// The weight `name` of `shape` among `tensors`; the dtype of `name` says in which format. NF4 may
// lack double quantisation, and int8 its layout. Sizes, shapes, maps and scales are checked; the
// error names the tensor, the cause and what would do.
Result<StoredWeight> FindWeight(const storage::TensorMap& tensors, const std::string& name,
                                std::span<const std::int64_t> shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_STORED_WEIGHT_H_
