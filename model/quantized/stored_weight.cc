#include "model/quantized/stored_weight.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "model/quantized/nf4_state.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"
#include "storage/models/safetensors_header.h"

namespace shoal::model {
namespace {

using storage::DType;
using storage::Quoted;
using storage::TensorMap;
using storage::TensorView;

std::string ShapeText(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

// The tensor that must be like `wanted`, with as many bytes as it says.
Result<TensorView> Take(const TensorMap& tensors, const StoredTensor& wanted) {
  const std::string what = "tensor " + Quoted(wanted.name);
  const std::string should =
      std::string(storage::DTypeName(wanted.dtype)) + " of shape " + ShapeText(wanted.shape);
  const auto found = tensors.find(wanted.name);
  if (found == tensors.end()) {
    return InvalidArgument(what + " is missing (" + should + "); fetch the model again");
  }
  const TensorView& view = found->second;
  std::uint64_t bytes = 0;
  SHOAL_CHECK(storage::TensorBytes(wanted.dtype, wanted.shape, &bytes));
  if (view.dtype != wanted.dtype || view.shape != wanted.shape || view.data.size() != bytes) {
    return InvalidArgument(what + " is " + std::string(storage::DTypeName(view.dtype)) +
                           " of shape " + ShapeText(view.shape) + " and should be " + should +
                           "; quantise the model again");
  }
  return view;
}

// Values from `first` on.
void ReadPart(std::span<const std::byte> bytes, DType dtype, std::size_t first,
              std::span<float> values) {
  const std::size_t width = storage::DTypeBytes(dtype);
  storage::ReadFloats(dtype, bytes.subspan(first * width, values.size() * width), values);
}

// Scales must be numbers from 0 to kWeightMax, other numbers at least -kWeightMax.
Status CheckNumbers(const TensorView& view, const std::string& name, float least) {
  std::array<float, 256> values;
  const std::size_t count = view.data.size() / sizeof(float);
  for (std::size_t first = 0; first < count; first += values.size()) {
    const auto own = std::span(values).first(std::min(values.size(), count - first));
    ReadPart(view.data, DType::kF32, first, own);
    for (const float value : own) {
      if (value >= least && value <= kWeightMax) continue;
      return InvalidArgument("tensor " + Quoted(name) + " holds " + std::to_string(value) +
                             ", which is no scale; the file is damaged, fetch it again");
    }
  }
  return Status::Ok();
}

Status ReadInt8(const TensorMap& tensors, const std::vector<StoredTensor>& wanted,
                StoredWeight* weight) {
  SHOAL_ASSIGN_OR_RETURN(const TensorView codes, Take(tensors, wanted[0]));
  SHOAL_ASSIGN_OR_RETURN(const TensorView absmax, Take(tensors, wanted[1]));
  SHOAL_RETURN_IF_ERROR(CheckNumbers(absmax, wanted[1].name, 0));
  weight->names = {wanted[0].name, wanted[1].name};
  if (tensors.contains(wanted[2].name)) {
    SHOAL_ASSIGN_OR_RETURN(const TensorView layout, Take(tensors, wanted[2]));
    if (layout.data[0] != std::byte{0}) {
      return InvalidArgument("tensor " + Quoted(wanted[2].name) +
                             " says that rows of int8 weights are rearranged; only 0, the plain "
                             "layout, is read; quantise the model again");
    }
    weight->names.push_back(wanted[2].name);
  }
  weight->int8 = {static_cast<std::size_t>(weight->shape[1]), codes.data, absmax.data};
  return Status::Ok();
}

Result<Nf4State> ReadState(const TensorMap& tensors, const std::string& name,
                           const std::string& state_name, const std::vector<std::int64_t>& shape) {
  const auto found = tensors.find(state_name);
  if (found == tensors.end()) {
    return InvalidArgument("tensor " + Quoted(name) + " is U8, but there is no " +
                           Quoted(state_name) +
                           " that tells how to decode it; use nf4 or int8 "
                           "as bitsandbytes writes them");
  }
  const TensorView& view = found->second;
  if (view.dtype != DType::kU8)
    return InvalidArgument("tensor " + Quoted(state_name) + " is not U8");
  SHOAL_ASSIGN_OR_RETURN(
      Nf4State state,
      ParseNf4State({reinterpret_cast<const char*>(view.data.data()), view.data.size()}, name));
  if (state.shape != shape) {
    return InvalidArgument("the nf4 state of tensor " + Quoted(name) + " has shape " +
                           ShapeText(state.shape) + ", but the model's is " + ShapeText(shape));
  }
  return state;
}

Status ReadNf4(const TensorMap& tensors, const std::vector<StoredTensor>& wanted,
               StoredWeight* weight) {
  const std::string& state_name = wanted[5].name;
  SHOAL_ASSIGN_OR_RETURN(const TensorView codes, Take(tensors, wanted[0]));
  SHOAL_ASSIGN_OR_RETURN(const Nf4State state,
                         ReadState(tensors, wanted[0].name, state_name, weight->shape));
  StoredTensor absmax = wanted[1];
  if (!state.nested) absmax.dtype = DType::kF32;
  SHOAL_ASSIGN_OR_RETURN(const TensorView scales, Take(tensors, absmax));
  SHOAL_ASSIGN_OR_RETURN(const TensorView map, Take(tensors, wanted[2]));
  if (std::memcmp(map.data.data(), kNf4Values.data(), sizeof(kNf4Values)) != 0) {
    return InvalidArgument("tensor " + Quoted(wanted[2].name) + " does not hold the values of nf4");
  }
  weight->names = {wanted[0].name, absmax.name, wanted[2].name};
  weight->nf4 = {weight->values, codes.data, scales.data, state.nested, {}, {}, state.offset};
  if (state.nested) {
    SHOAL_ASSIGN_OR_RETURN(const TensorView nested, Take(tensors, wanted[3]));
    SHOAL_ASSIGN_OR_RETURN(const TensorView nested_map, Take(tensors, wanted[4]));
    SHOAL_RETURN_IF_ERROR(CheckNumbers(nested, wanted[3].name, 0));
    SHOAL_RETURN_IF_ERROR(CheckNumbers(nested_map, wanted[4].name, -1));
    weight->nf4.nested_absmax = nested.data;
    weight->nf4.nested_map = nested_map.data;
    weight->names.insert(weight->names.end(), {wanted[3].name, wanted[4].name});
  } else {
    SHOAL_RETURN_IF_ERROR(CheckNumbers(scales, absmax.name, 0));
  }
  weight->names.push_back(state_name);
  return Status::Ok();
}

Result<WeightFormat> FormatOf(const TensorView& view, const std::string& name) {
  switch (view.dtype) {
    case DType::kF32: return WeightFormat::kFp32;
    case DType::kBF16: return WeightFormat::kBf16;
    case DType::kF16: return WeightFormat::kFp16;
    case DType::kI8: return WeightFormat::kInt8;
    case DType::kU8: return WeightFormat::kNf4;
    default:
      return InvalidArgument("tensor " + Quoted(name) + " has dtype " +
                             std::string(storage::DTypeName(view.dtype)) +
                             "; weights are F32, F16, BF16, or quantised as I8 or U8");
  }
}

}  // namespace

void StoredWeight::Decode(std::size_t first, std::span<float> out) const {
  switch (format) {
    case WeightFormat::kFp32: return ReadPart(floats, DType::kF32, first, out);
    case WeightFormat::kBf16: return ReadPart(floats, DType::kBF16, first, out);
    case WeightFormat::kFp16: return ReadPart(floats, DType::kF16, first, out);
    case WeightFormat::kInt8: return DecodeInt8(int8, first, out);
    case WeightFormat::kNf4: return DecodeNf4(nf4, first, out);
  }
}

Result<StoredWeight> FindWeight(const TensorMap& tensors, const std::string& name,
                                std::span<const std::int64_t> shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return InvalidArgument("tensor " + Quoted(name) + " is missing; fetch the model again");
  }
  StoredWeight weight;
  SHOAL_ASSIGN_OR_RETURN(weight.format, FormatOf(found->second, name));
  weight.shape.assign(shape.begin(), shape.end());
  SHOAL_ASSIGN_OR_RETURN(const std::vector<StoredTensor> wanted,
                         StoredTensors(weight.format, name, shape));
  std::uint64_t values = 0;
  SHOAL_CHECK(storage::TensorBytes(DType::kU8, weight.shape, &values));
  weight.values = static_cast<std::size_t>(values);
  switch (weight.format) {
    case WeightFormat::kInt8: SHOAL_RETURN_IF_ERROR(ReadInt8(tensors, wanted, &weight)); break;
    case WeightFormat::kNf4: SHOAL_RETURN_IF_ERROR(ReadNf4(tensors, wanted, &weight)); break;
    default: {
      SHOAL_ASSIGN_OR_RETURN(const TensorView view, Take(tensors, wanted[0]));
      weight.floats = view.data;
      weight.names = {name};
    }
  }
  return weight;
}

}  // namespace shoal::model
