#include "model/file_tensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>

namespace shoal::model {
namespace {

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

at::ScalarType ScalarTypeOf(storage::DType dtype) {
  switch (dtype) {
    case storage::DType::kF16: return at::kHalf;
    case storage::DType::kBF16: return at::kBFloat16;
    default: return at::kFloat;
  }
}

}  // namespace

std::vector<std::string> StageParts(const ModelSpec& spec, const StageRange& range) {
  const std::vector<std::string> all = spec.PartNames();
  const std::ptrdiff_t shared = spec.relative ? 1 : 0;  // first, and of every stage
  SHOAL_CHECK(all.size() == std::size_t{spec.layers()} + 2 + shared);
  std::vector<std::string> parts(all.begin(), all.begin() + shared);
  const auto embedding = all.begin() + shared;
  if (range.first_layer == 0) parts.push_back(*embedding);
  parts.insert(parts.end(), embedding + 1 + range.first_layer, embedding + 1 + range.last_layer);
  if (range.last_layer == spec.layers()) parts.push_back(all.back());
  return parts;
}

Status CheckFileTensor(const storage::TensorMap& tensors, const std::string& name,
                       const std::vector<std::int64_t>& shape, bool only_fp32) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return InvalidArgument("tensor " + name + " is missing; fetch or export the part again");
  }
  const storage::TensorView& view = found->second;
  if (view.shape != shape) {
    return InvalidArgument("tensor " + name + " has shape " + ShapeText(view.shape) +
                           ", config.json wants " + ShapeText(shape));
  }
  const bool known =
      view.dtype == storage::DType::kF32 ||
      (!only_fp32 && (view.dtype == storage::DType::kF16 || view.dtype == storage::DType::kBF16));
  if (!known) {
    return InvalidArgument("tensor " + name + " has dtype " +
                           std::string(storage::DTypeName(view.dtype)) + ", wanted " +
                           (only_fp32 ? "F32" : "F32, F16 or BF16"));
  }
  const std::uint64_t bytes = ValuesOf({shape}) * storage::DTypeBytes(view.dtype);
  if (view.data.size() != bytes) {
    return InvalidArgument("tensor " + name + " has " + std::to_string(view.data.size()) +
                           " bytes, its shape needs " + std::to_string(bytes));
  }
  return Status::Ok();
}

at::Tensor ToTensor(const storage::TensorView& view) {
  const auto count = static_cast<std::int64_t>(ValuesOf({view.shape}));
  at::Tensor tensor = at::empty({count}, ScalarTypeOf(view.dtype));
  SHOAL_CHECK(tensor.nbytes() == view.data.size());
  if (!view.data.empty()) std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
  return tensor;
}

}  // namespace shoal::model
