#include "model/blocks/frozen_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <utility>

namespace shoal::model {
namespace {

// Values that a thread decodes at a time; even, as nf4 likes it.
constexpr std::int64_t kPieceValues = 1 << 16;

}  // namespace

std::uint64_t FrozenTensor::bytes() const {
  std::uint64_t bytes = kept_.defined() ? kept_.nbytes() : 0;
  for (const std::vector<std::byte>& codes : codes_) bytes += codes.size();
  return bytes + (device_codes_ ? device_codes_->bytes() : 0);
}

void FrozenTensor::Set(at::Tensor kept) {
  kept_ = std::move(kept);
  weight_.reset();
  codes_.clear();
  device_codes_.reset();
}

void FrozenTensor::Set(const StoredWeight& weight, const storage::TensorMap& tensors) {
  Set(at::Tensor());
  device_codes_ = NewDeviceCodes(weight, device_);
  if (device_codes_ != nullptr) return;
  storage::TensorMap copied;
  for (const std::string& name : weight.names) {
    const storage::TensorView& view = tensors.at(name);
    const auto& codes = codes_.emplace_back(view.data.begin(), view.data.end());
    copied[name] = {view.dtype, view.shape, codes};
  }
  Result<StoredWeight> own = FindWeight(copied, weight.names.front(), weight.shape);
  SHOAL_CHECK(own.ok());  // as the one given
  weight_ = std::move(*own);
}

at::Tensor FrozenTensor::Floats(at::ScalarType decoded) const {
  if (device_codes_ != nullptr) return device_codes_->Decode(decoded);
  if (!weight_) return kept_;
  const at::Tensor values = at::empty(weight_->shape, at::kFloat);
  float* const to = values.mutable_data_ptr<float>();
  at::parallel_for(0, values.numel(), kPieceValues, [&](std::int64_t begin, std::int64_t end) {
    weight_->Decode(static_cast<std::size_t>(begin),
                    {to + begin, static_cast<std::size_t>(end - begin)});
  });
  return values.to(decoded);
}

at::Tensor FrozenTensor::ForProduct() const { return Floats(compute_).to(compute_); }

at::Tensor FrozenTensor::Rows(const at::Tensor& ids) const {
  return Floats(at::kFloat).index_select(0, ids).to(at::kFloat);
}

at::Tensor FrozenTensor::Rows(std::int64_t first, std::int64_t count) const {
  return Floats(at::kFloat).narrow(0, first, count).to(at::kFloat);
}

}  // namespace shoal::model
