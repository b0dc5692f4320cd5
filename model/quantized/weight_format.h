// How the weights of a frozen base are kept, and which tensors of a safetensors file hold one
// weight in each format. The names, types and shapes are those that bitsandbytes serialises, so
// that a directory of them loads in transformers, too. docs/STORAGE.md has the bytes.
//
// Thread: any.

#ifndef SHOAL_MODEL_QUANTIZED_WEIGHT_FORMAT_H_
#define SHOAL_MODEL_QUANTIZED_WEIGHT_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "storage/models/tensor_view.h"

namespace shoal::model {

enum class WeightFormat { kFp32, kBf16, kFp16, kInt8, kNf4 };

inline constexpr WeightFormat kWeightFormats[] = {WeightFormat::kFp32, WeightFormat::kBf16,
                                                  WeightFormat::kFp16, WeightFormat::kInt8,
                                                  WeightFormat::kNf4};

// "fp32", "bf16", "fp16", "int8" or "nf4".
std::string_view WeightFormatName(WeightFormat format);
// Invalid argument for any other text.
Result<WeightFormat> ParseWeightFormat(std::string_view name);

// What a file says of a tensor, without its bytes.
struct StoredTensor {
  std::string name;
  storage::DType dtype = storage::DType::kF32;
  std::vector<std::int64_t> shape;
};

// Names of the tensors beside a quantised `name`. bitsandbytes puts int8's scales beside the
// module's "weight" ("c_fc.weight" has "c_fc.SCB"), and nf4's below the tensor's own name.
struct Int8Names {
  explicit Int8Names(const std::string& name);
  std::string scales, layout;
};
struct Nf4Names {
  explicit Nf4Names(const std::string& name);
  std::string absmax, map, nested_absmax, nested_map, state;
};

// The tensors that hold weight `name` of `shape`, in the order in which they are written. The
// weight must have values, for int8 it must be a matrix; else invalid argument with its name.
Result<std::vector<StoredTensor>> StoredTensors(WeightFormat format, const std::string& name,
                                                std::span<const std::int64_t> shape);

// Bytes of all of them together. Divided by the number of values: 8.0 bits for int8, 4.13 for nf4.
Result<std::uint64_t> StoredBytes(WeightFormat format, const std::string& name,
                                  std::span<const std::int64_t> shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_QUANTIZED_WEIGHT_FORMAT_H_
