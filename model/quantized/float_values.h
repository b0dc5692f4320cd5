// Values of F32, F16 and BF16 tensors as fp32, and back. Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_FLOAT_VALUES_H_
#define SHOAL_MODEL_QUANTIZED_FLOAT_VALUES_H_

#include <cstddef>
#include <span>

#include "storage/models/tensor_view.h"

namespace shoal::model {

// Largest absolute value of a weight or scale: what is decoded from it is finite, too.
inline constexpr float kWeightMax = 0x1p120F;

// F32, F16 or BF16.
bool HoldsFloats(storage::DType dtype);

// Values from `first` on as fp32, exact. `bytes`: of a tensor of `dtype`, may be unaligned.
void ReadFloats(std::span<const std::byte> bytes, storage::DType dtype, std::size_t first,
                std::span<float> values);

// The same way back: to nearest, ties to even. F16 makes infinity of 65520 and more.
void WriteFloats(std::span<const float> values, storage::DType dtype, std::size_t first,
                 std::span<std::byte> bytes);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_FLOAT_VALUES_H_
