// A tensor that training leaves as it is, in the format that it is kept in: a number format, or the
// codes of int8 and nf4, which are decoded for each use (Dettmers et al., "QLoRA", 2023), where the
// products are.
//
// Internal to model/; throws what LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_BLOCKS_FROZEN_TENSOR_H_
#define SHOAL_MODEL_BLOCKS_FROZEN_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/blocks/device_codes.h"
#include "model/quantized/stored_weight.h"

namespace shoal::model {

class FrozenTensor {
 public:
  // `compute`: of matrix products.
  FrozenTensor(at::ScalarType compute, at::Device device) : compute_(compute), device_(device) {}
  FrozenTensor(const FrozenTensor&) = delete;
  FrozenTensor& operator=(const FrozenTensor&) = delete;

  at::ScalarType dtype() const { return compute_; }
  std::uint64_t bytes() const;
  // fp32, fp16 or bf16, on the device.
  void Set(at::Tensor kept);
  // A weight of codes, checked; copied out of `tensors`.
  void Set(const StoredWeight& weight, const storage::TensorMap& tensors);

  // For a product: a copy where it is kept in another format.
  at::Tensor ForProduct() const;
  // Rows of a table, fp32.
  at::Tensor Rows(const at::Tensor& ids) const;
  // Rows [first, first + count), fp32.
  at::Tensor Rows(std::int64_t first, std::int64_t count) const;

 private:
  // In the format that it is kept in; codes become `decoded`.
  at::Tensor Floats(at::ScalarType decoded) const;

  const at::ScalarType compute_;
  const at::Device device_;
  at::Tensor kept_;                            // undefined: codes
  std::vector<std::vector<std::byte>> codes_;  // that weight_ shows
  std::optional<StoredWeight> weight_;
  std::unique_ptr<const DeviceCodes> device_codes_;  // in their place on a device
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_FROZEN_TENSOR_H_
