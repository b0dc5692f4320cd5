#include "model/blocks/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/outer.h>

#include <algorithm>
#include <vector>

namespace shoal::model {

// As the model was trained: frequencies and angles in fp32.
void Rotary::Grow(std::int64_t tokens, const at::Device& device) {
  if (cosines_.defined() && cosines_.size(0) >= tokens) return;
  // A row that grows by a token at a time must not make the table anew for each.
  if (cosines_.defined()) tokens = std::max(tokens, 2 * cosines_.size(0));
  std::vector<float> frequencies(spec_.frequencies.begin(), spec_.frequencies.end());
  const at::Tensor rates = at::from_blob(
      frequencies.data(), {static_cast<std::int64_t>(frequencies.size())}, at::kFloat);
  const at::Tensor angles = at::outer(at::arange(tokens, at::kFloat), rates);
  cosines_ = angles.cos().mul_(spec_.factor).to(device);
  sines_ = angles.sin().mul_(spec_.factor).to(device);
}

at::Tensor Rotary::Apply(const BatchContext& context, const at::Tensor& x, bool back) {
  Grow(context.past + context.tokens, x.device());
  const std::int64_t pairs = cosines_.size(1), rest = x.size(-1) - 2 * pairs;
  const auto of_tokens = [&](const at::Tensor& table) {
    if (!context.positions.defined()) {
      return table.narrow(0, context.past, context.tokens).to(x.scalar_type());
    }
    return table.index_select(0, context.positions)
        .view({context.rows, 1, context.tokens, pairs})
        .to(x.scalar_type());
  };
  const at::Tensor cosines = of_tokens(cosines_);
  at::Tensor sines = of_tokens(sines_);
  if (back) sines = sines.neg();
  const at::Tensor first = x.narrow(-1, 0, pairs), second = x.narrow(-1, pairs, pairs);
  std::vector<at::Tensor> parts = {first.mul(cosines).sub_(second.mul(sines)),
                                   second.mul(cosines).add_(first.mul(sines))};
  if (rest > 0) parts.push_back(x.narrow(-1, 2 * pairs, rest));
  return at::cat(parts, -1);
}

}  // namespace shoal::model
