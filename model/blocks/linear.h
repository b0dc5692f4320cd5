// A matrix product with its bias, and the two halves of its backward.

#ifndef SHOAL_MODEL_BLOCKS_LINEAR_H_
#define SHOAL_MODEL_BLOCKS_LINEAR_H_

#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// x [tokens, in] and gradients in the dtype of the compute weights; sums into fp32 gradients.
class Linear {
 public:
  Linear(const LinearSpec& spec, const FindParameter& find);

  at::ScalarType dtype() const { return weight_.compute.scalar_type(); }
  at::Tensor Forward(const at::Tensor& x) const;
  at::Tensor BackwardInput(const at::Tensor& gradient) const;
  void BackwardWeights(const at::Tensor& x, const at::Tensor& gradient) const;

 private:
  bool in_first_;
  Parameter weight_, bias_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_LINEAR_H_
