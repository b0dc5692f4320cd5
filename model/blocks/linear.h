// A matrix product with its bias and its adapter, and the two halves of its backward.
//
// An adapter adds scale * dropout(x) A B, with a mask of its own (Hu et al., "LoRA", 2022, section
// 4.1). The mask and what lies between A and B are kept for the backward.

#ifndef SHOAL_MODEL_BLOCKS_LINEAR_H_
#define SHOAL_MODEL_BLOCKS_LINEAR_H_

#include <optional>

#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// x [tokens, in] and gradients in the dtype of the compute weights; sums into fp32 gradients.
class Linear {
 public:
  // Of an adapter. `between` [tokens, rank] is dropout(x) A, from Forward; its gradient is from
  // BackwardInput, before scaling.
  struct Kept {
    at::Tensor mask;  // of its dropout, packed
    at::Tensor between, between_gradient;
  };

  Linear(const LinearSpec& spec, const FindParameter& find);

  at::ScalarType dtype() const { return weight_.dtype(); }
  // Whether anything of it is.
  bool trained() const { return weight_.trained() || bias_.trained() || lora_.has_value(); }
  at::Tensor Forward(const BatchContext& context, const at::Tensor& x, Kept* kept) const;
  // `wanted`: if not, nobody needs the gradient of x, and the result is undefined.
  at::Tensor BackwardInput(const at::Tensor& gradient, Kept* kept, bool wanted = true) const;
  void BackwardWeights(const at::Tensor& x, const at::Tensor& gradient, const Kept& kept) const;

 private:
  at::Tensor Dropped(const at::Tensor& x, const Kept& kept) const;
  void AdapterBackwardWeights(const at::Tensor& x, const at::Tensor& gradient,
                              const Kept& kept) const;

  bool in_first_;
  std::int64_t in_;
  Parameter weight_, bias_;
  std::optional<LoraSpec> lora_;
  Parameter a_, b_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_LINEAR_H_
