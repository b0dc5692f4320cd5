// Tensors as bytes, with their type and shape.

#ifndef SHOAL_STORAGE_MODELS_TENSOR_VIEW_H_
#define SHOAL_STORAGE_MODELS_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::storage {

enum class DType {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF8E4M3,
  kF8E5M2,
  kF16,
  kBF16,
  kF32,
  kF64
};

std::size_t DTypeBytes(DType dtype);
std::string_view DTypeName(DType dtype);  // "F32", as in the file
std::optional<DType> DTypeOf(std::string_view name);
// "[8, 4]".
std::string ShapeText(const std::vector<std::int64_t>& shape);

struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // little-endian, row-major; may be unaligned
};

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_TENSOR_VIEW_H_
