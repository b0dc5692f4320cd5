// A matrix product with its bias and its adapter, and the two halves of its backward.
//
// An adapter adds scale * dropout(x) A B, with a mask of its own (Hu et al., "LoRA", 2022, section
// 4.1). What it needs in the backward is made again from x: rank / width of the product's cost.

#ifndef SHOAL_MODEL_BLOCKS_LINEAR_H_
#define SHOAL_MODEL_BLOCKS_LINEAR_H_

#include <optional>

#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// x [tokens, in] and gradients in the dtype of the compute weights; sums into fp32 gradients.
class Linear {
 public:
  Linear(const LinearSpec& spec, const FindParameter& find);

  at::ScalarType dtype() const { return weight_.dtype(); }
  at::Tensor Forward(const BatchContext& context, const at::Tensor& x) const;
  at::Tensor BackwardInput(const BatchContext& context, const at::Tensor& gradient) const;
  void BackwardWeights(const BatchContext& context, const at::Tensor& x,
                       const at::Tensor& gradient) const;

 private:
  at::Tensor AdapterMask(const BatchContext& context, const at::Tensor& like) const;
  at::Tensor AdapterGradient(const at::Tensor& gradient) const;
  void AdapterBackwardWeights(const BatchContext& context, const at::Tensor& x,
                              const at::Tensor& gradient) const;

  bool in_first_;
  std::int64_t in_;
  Parameter weight_, bias_;
  std::optional<LoraSpec> lora_;
  Parameter a_, b_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_LINEAR_H_
