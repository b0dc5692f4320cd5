// Tensors of F32, F16 and BF16 as fp32 values, and back: pure functions over spans. Thread: any.

#ifndef SHOAL_STORAGE_MODELS_FLOAT_BYTES_H_
#define SHOAL_STORAGE_MODELS_FLOAT_BYTES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "storage/models/tensor_view.h"

namespace shoal::storage {

bool IsFloat(DType dtype);  // F32, F16 or BF16; all others are refused below as our own bug

// `bytes` holds values.size() little-endian values of `dtype`, perhaps unaligned.
void ReadFloats(DType dtype, std::span<const std::byte> bytes, std::span<float> values);

// Rounds to nearest, ties to even. `bytes` has room for all. The first value that is finite and
// would become infinite; nothing if there is none.
std::optional<float> WriteFloats(DType dtype, std::span<const float> values,
                                 std::span<std::byte> bytes);

// The place of the first value that is NaN or infinite; nothing if there is none. `bytes`: as
// above.
std::optional<std::size_t> FirstNotFinite(DType dtype, std::span<const std::byte> bytes);

// "fp32", "bf16", "fp16", as options name them; "float32", "bfloat16", "float16", as config.json
// does. Nothing for another name.
std::optional<DType> FloatOfOption(std::string_view name);
std::optional<DType> FloatOfConfig(std::string_view name);
std::string_view ConfigNameOf(DType dtype);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_FLOAT_BYTES_H_
