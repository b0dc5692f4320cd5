#include "model/quantized/weight_format.h"

#include "model/quantized/nf4.h"
#include "model/quantized/nf4_state.h"
#include "storage/files/foreign_text.h"
#include "storage/models/safetensors_header.h"

namespace shoal::model {
namespace {

using storage::DType;
using storage::Quoted;

// "c_fc." of "c_fc.weight", nothing of "weight"; other names take a dot behind them.
std::string ModulePrefix(const std::string& name) {
  constexpr std::string_view kWeight = "weight";
  if (name == kWeight) return "";
  if (name.ends_with(".weight")) return name.substr(0, name.size() - kWeight.size());
  return name + ".";
}

std::int64_t CeilOf(std::uint64_t count, std::size_t divisor) {
  return static_cast<std::int64_t>((count + divisor - 1) / divisor);
}

std::vector<StoredTensor> Nf4Tensors(const std::string& name, std::uint64_t values) {
  const Nf4Names names(name);
  const std::int64_t blocks = CeilOf(values, kNf4Block);
  return {{name, DType::kU8, {CeilOf(values, 2), 1}},
          {names.absmax, DType::kU8, {blocks}},
          {names.map, DType::kF32, {16}},
          {names.nested_absmax,
           DType::kF32,
           {CeilOf(static_cast<std::uint64_t>(blocks), kNf4NestedBlock)}},
          {names.nested_map, DType::kF32, {256}},
          {names.state, DType::kU8, {static_cast<std::int64_t>(kNf4StateBytes)}}};
}

}  // namespace

std::string_view WeightFormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp32: return "fp32";
    case WeightFormat::kBf16: return "bf16";
    case WeightFormat::kFp16: return "fp16";
    case WeightFormat::kInt8: return "int8";
    case WeightFormat::kNf4: return "nf4";
  }
  SHOAL_CHECK(false);
}

Result<WeightFormat> ParseWeightFormat(std::string_view name) {
  for (const WeightFormat format : kWeightFormats) {
    if (WeightFormatName(format) == name) return format;
  }
  return InvalidArgument("unknown format of weights " + Quoted(name) +
                         "; use fp32, bf16, fp16, int8 or nf4");
}

Int8Names::Int8Names(const std::string& name)
    : scales(ModulePrefix(name) + "SCB"), layout(ModulePrefix(name) + "weight_format") {}

Nf4Names::Nf4Names(const std::string& name)
    : absmax(name + ".absmax"),
      map(name + ".quant_map"),
      nested_absmax(name + ".nested_absmax"),
      nested_map(name + ".nested_quant_map"),
      state(name + ".quant_state.bitsandbytes__nf4") {}

Result<std::vector<StoredTensor>> StoredTensors(WeightFormat format, const std::string& name,
                                                std::span<const std::int64_t> shape) {
  const std::vector<std::int64_t> own(shape.begin(), shape.end());
  std::uint64_t values = 0, bytes = 0;
  if (!storage::TensorBytes(DType::kU8, own, &values) ||
      !storage::TensorBytes(DType::kF32, own, &bytes) || values == 0) {
    return InvalidArgument("tensor " + Quoted(name) +
                           " has no values or more than fit into memory; it cannot be a weight");
  }
  switch (format) {
    case WeightFormat::kFp32: return std::vector<StoredTensor>{{name, DType::kF32, own}};
    case WeightFormat::kBf16: return std::vector<StoredTensor>{{name, DType::kBF16, own}};
    case WeightFormat::kFp16: return std::vector<StoredTensor>{{name, DType::kF16, own}};
    case WeightFormat::kInt8: break;
    case WeightFormat::kNf4:
      if (own.size() <= kNf4DimensionsMax) return Nf4Tensors(name, values);
      return InvalidArgument("tensor " + Quoted(name) + " has more than " +
                             std::to_string(kNf4DimensionsMax) +
                             " dimensions; keep it in fp32, bf16 or fp16");
  }
  if (own.size() != 2) {
    return InvalidArgument("tensor " + Quoted(name) +
                           " is no matrix, and int8 has a scale per row; keep it in fp32, bf16 "
                           "or fp16");
  }
  const Int8Names names(name);
  return std::vector<StoredTensor>{{name, DType::kI8, own},
                                   {names.scales, DType::kF32, {own[0]}},
                                   {names.layout, DType::kU8, {}}};
}

Result<std::uint64_t> StoredBytes(WeightFormat format, const std::string& name,
                                  std::span<const std::int64_t> shape) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<StoredTensor> tensors,
                         StoredTensors(format, name, shape));
  std::uint64_t total = 0;
  for (const StoredTensor& tensor : tensors) {
    std::uint64_t bytes = 0;
    SHOAL_CHECK(storage::TensorBytes(tensor.dtype, tensor.shape, &bytes));
    total += bytes;
  }
  return total;
}

}  // namespace shoal::model
