// The attention part of a layer: products for queries, keys and values, norms and rotary positions
// of heads, attention, and the product behind it.

#ifndef SHOAL_MODEL_BLOCKS_ATTENTION_H_
#define SHOAL_MODEL_BLOCKS_ATTENTION_H_

#include <memory>
#include <optional>
#include <vector>

#include "model/blocks/attention_core.h"
#include "model/blocks/disentangled.h"
#include "model/blocks/linear.h"
#include "model/blocks/norm.h"
#include "model/blocks/parameter.h"
#include "model/blocks/rotary.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// Rotary tables by kind, shared by the layers of a stage.
using FindRotary = std::function<std::shared_ptr<Rotary>(const RotarySpec& spec)>;

// Keys and values of a row's tokens so far, placed, in heads that are not spread.
struct KeyValues {
  at::Tensor key, value;  // [1, key heads, room, head size], compute dtype; undefined: no tokens

  // Writes tokens [past, past + new ones) and returns views of all up to them. What lies behind is
  // forgotten. Room doubles as it is needed.
  AttentionCore::KeyValue Extend(std::int64_t past, const at::Tensor& new_key,
                                 const at::Tensor& new_value);
};

class Attention {
 public:
  struct Kept {
    KeyValues* row = nullptr;  // lent: where a row in pieces (BatchContext::past) goes on
    at::Tensor input, merged;  // of the products, compute dtype
    Norm::Kept query_norm, key_norm;
    AttentionCore::Kept core;
    Disentangled::Kept disentangled;
    // Gradients of the products' outputs, from BackwardInput for BackwardWeights.
    std::vector<at::Tensor> input_gradients;
    at::Tensor output_gradient;
    std::vector<Linear::Kept> input_products;
    Linear::Kept output_product;
  };

  Attention(const AttentionSpec& spec, std::uint32_t layer, const FindParameter& find,
            const FindRotary& rotary);

  at::ScalarType dtype() const { return output_.dtype(); }
  // `x` [rows * tokens, hidden] in the compute dtype, to the same shape.
  at::Tensor Forward(const BatchContext& context, const at::Tensor& x, Kept* kept) const;
  // `wanted`: if not, nobody needs the gradient of x, and the result is undefined.
  at::Tensor BackwardInput(const BatchContext& context, const at::Tensor& gradient, Kept* kept,
                           bool wanted) const;
  void BackwardWeights(const BatchContext& context, const Kept& kept) const;

 private:
  at::Tensor Heads(const BatchContext& context, const at::Tensor& flat, std::int64_t heads) const;
  at::Tensor Place(const BatchContext& context, const std::optional<Norm>& norm,
                   const at::Tensor& heads, Norm::Kept* kept) const;
  at::Tensor PlaceBack(const BatchContext& context, const std::optional<Norm>& norm,
                       const at::Tensor& gradient, Norm::Kept* kept) const;

  AttentionSpec spec_;
  std::vector<Linear> inputs_;
  Linear output_;
  std::optional<Norm> query_norm_, key_norm_;
  std::shared_ptr<Rotary> rotary_;
  AttentionCore core_;
  std::optional<Disentangled> disentangled_;  // in place of it
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_ATTENTION_H_
