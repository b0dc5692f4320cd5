// A tensor that training leaves as it is, in the number format that it is kept in.
//
// Internal to model/; throws what LibTorch throws. Thread: compute.

#ifndef SHOAL_MODEL_BLOCKS_FROZEN_TENSOR_H_
#define SHOAL_MODEL_BLOCKS_FROZEN_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace shoal::model {

class FrozenTensor {
 public:
  // `compute`: of matrix products.
  explicit FrozenTensor(at::ScalarType compute) : compute_(compute) {}

  at::ScalarType dtype() const { return compute_; }
  std::uint64_t bytes() const { return kept_.defined() ? kept_.nbytes() : 0; }
  // fp32, fp16 or bf16, on the device.
  void Set(at::Tensor kept) { kept_ = std::move(kept); }

  // For a product: a copy where it is kept in another format.
  at::Tensor ForProduct() const { return kept_.to(compute_); }
  // Rows of a table, fp32.
  at::Tensor Rows(const at::Tensor& ids) const { return kept_.index_select(0, ids).to(at::kFloat); }
  // Rows [first, first + count), fp32.
  at::Tensor Rows(std::int64_t first, std::int64_t count) const {
    return kept_.narrow(0, first, count).to(at::kFloat);
  }

 private:
  const at::ScalarType compute_;
  at::Tensor kept_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_FROZEN_TENSOR_H_
