// Rotary positions (Su et al., "RoFormer", 2021): turns pairs of a head's values by its position.

#ifndef SHOAL_MODEL_BLOCKS_ROTARY_H_
#define SHOAL_MODEL_BLOCKS_ROTARY_H_

#include <utility>

#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class Rotary {
 public:
  explicit Rotary(RotarySpec spec) : spec_(std::move(spec)) {}

  const RotarySpec& spec() const { return spec_; }

  // `x` [rows, heads, tokens, head size]; the first values of a head turn, the others stay.
  at::Tensor Turn(const BatchContext& context, const at::Tensor& x) {
    return Apply(context, x, false);
  }
  // The gradient of `x` from that of Turn's result.
  at::Tensor TurnBack(const BatchContext& context, const at::Tensor& x) {
    return Apply(context, x, true);
  }

 private:
  at::Tensor Apply(const BatchContext& context, const at::Tensor& x, bool back);
  void Grow(std::int64_t tokens, const at::Device& device);

  RotarySpec spec_;
  // fp32 [tokens, pairs], of the longest row so far.
  at::Tensor cosines_, sines_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_ROTARY_H_
