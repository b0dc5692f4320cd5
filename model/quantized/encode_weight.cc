#include "model/quantized/encode_weight.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "model/quantized/int8.h"
#include "model/quantized/nf4.h"
#include "model/quantized/nf4_state.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"
#include "storage/models/safetensors_header.h"

namespace shoal::model {
namespace {

using storage::DType;
using storage::Quoted;
using storage::TensorView;

constexpr std::size_t kPieceValues = 1 << 14;
constexpr float kHalfMax = 65519.996F;  // the largest fp32 value that fp16 rounds to a finite one
static_assert(kPieceValues % kNf4Block == 0);

using PieceWork = std::function<void(std::size_t first, std::span<const float> values)>;

// Calls `work` with pieces of `piece` values in order, checked to be at most `most`.
Status ForEachPiece(const std::string& name, const TensorView& weight, std::size_t piece,
                    float most, const PieceWork& work) {
  const std::size_t count = weight.data.size() / storage::DTypeBytes(weight.dtype);
  std::vector<float> values(std::min(piece, count));
  for (std::size_t first = 0; first < count; first += piece) {
    const auto own = std::span(values).first(std::min(piece, count - first));
    const std::size_t width = storage::DTypeBytes(weight.dtype);
    storage::ReadFloats(weight.dtype, weight.data.subspan(first * width, own.size() * width), own);
    const auto beyond =
        std::ranges::find_if(own, [most](float value) { return !(std::fabs(value) <= most); });
    if (beyond != own.end()) {
      return InvalidArgument(
          "value " + std::to_string(first + static_cast<std::size_t>(beyond - own.begin())) +
          " of tensor " + Quoted(name) + " is " + std::to_string(*beyond) +
          ", which its format cannot hold; mend the model's weights, or choose another format");
    }
    work(first, own);
  }
  return Status::Ok();
}

template <typename T>
void CopyInto(const T& values, std::vector<std::byte>* bytes) {
  const auto from = std::as_bytes(std::span(values));
  SHOAL_CHECK(from.size() == bytes->size());
  std::copy(from.begin(), from.end(), bytes->begin());
}

Status EncodeFloats(const std::string& name, const TensorView& weight, EncodedTensor* out) {
  const DType dtype = out->stored.dtype;
  const float most = dtype == DType::kF16 ? kHalfMax : kWeightMax;
  return ForEachPiece(
      name, weight, kPieceValues, most, [&](std::size_t first, std::span<const float> values) {
        const std::size_t width = storage::DTypeBytes(dtype);
        (void)storage::WriteFloats(
            dtype, values, std::span(out->bytes).subspan(first * width, values.size() * width));
      });
}

Status EncodeInt8(const std::string& name, const TensorView& weight,
                  std::span<EncodedTensor, 3> out) {
  const auto columns = static_cast<std::size_t>(weight.shape[1]);
  const std::size_t rows_once = std::max<std::size_t>(1, kPieceValues / columns);
  std::vector<float> absmax(static_cast<std::size_t>(weight.shape[0]));
  const Status done = ForEachPiece(
      name, weight, rows_once * columns, kWeightMax,
      [&](std::size_t first, std::span<const float> values) {
        QuantizeInt8(values, columns, std::span(out[0].bytes).subspan(first, values.size()),
                     std::span(absmax).subspan(first / columns, values.size() / columns));
      });
  CopyInto(absmax, &out[1].bytes);  // the layout behind it is 0: rows
  return done;
}

Status EncodeNf4(const std::string& name, const TensorView& weight,
                 std::span<EncodedTensor, 6> out) {
  std::vector<float> absmax(out[1].bytes.size());
  SHOAL_RETURN_IF_ERROR(ForEachPiece(
      name, weight, kPieceValues, kWeightMax,
      [&](std::size_t first, std::span<const float> values) {
        QuantizeNf4(values, std::span(out[0].bytes).subspan(first / 2, (values.size() + 1) / 2),
                    std::span(absmax).subspan(first / kNf4Block,
                                              (values.size() + kNf4Block - 1) / kNf4Block));
      }));
  const NestedAbsmax nested = NestAbsmax(absmax);
  out[1].bytes = nested.codes;
  CopyInto(kNf4Values, &out[2].bytes);
  CopyInto(nested.absmax, &out[3].bytes);
  CopyInto(DynamicMap(), &out[4].bytes);
  CopyInto(Nf4StateText({weight.dtype, weight.shape, true, nested.offset}), &out[5].bytes);
  return Status::Ok();
}

}  // namespace

Result<std::vector<EncodedTensor>> EncodeWeight(const std::string& name, const TensorView& weight,
                                                WeightFormat format) {
  std::uint64_t bytes = 0;
  if (!storage::IsFloat(weight.dtype) ||
      !storage::TensorBytes(weight.dtype, weight.shape, &bytes) || bytes != weight.data.size()) {
    return InvalidArgument("tensor " + Quoted(name) + " is no tensor of F32, F16 or BF16 values");
  }
  SHOAL_ASSIGN_OR_RETURN(std::vector<StoredTensor> stored,
                         StoredTensors(format, name, weight.shape));
  std::vector<EncodedTensor> out;
  for (StoredTensor& tensor : stored) {
    SHOAL_CHECK(storage::TensorBytes(tensor.dtype, tensor.shape, &bytes));
    out.push_back({std::move(tensor), std::vector<std::byte>(static_cast<std::size_t>(bytes))});
  }
  const std::span all(out);
  switch (format) {
    case WeightFormat::kFp32:
    case WeightFormat::kBf16:
    case WeightFormat::kFp16: SHOAL_RETURN_IF_ERROR(EncodeFloats(name, weight, &out[0])); break;
    case WeightFormat::kInt8:
      SHOAL_RETURN_IF_ERROR(EncodeInt8(name, weight, all.first<3>()));
      break;
    case WeightFormat::kNf4: SHOAL_RETURN_IF_ERROR(EncodeNf4(name, weight, all.first<6>())); break;
  }
  return out;
}

}  // namespace shoal::model
