// Attention by content and distance: vectors of distances are products over the rows of a table
// that all layers use (disentangled_core.h). Segments of rows, and padding, as in attention_core.h.

#ifndef SHOAL_MODEL_BLOCKS_DISENTANGLED_H_
#define SHOAL_MODEL_BLOCKS_DISENTANGLED_H_

#include <optional>

#include "model/blocks/disentangled_core.h"
#include "model/blocks/linear.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class Disentangled {
 public:
  struct Kept {
    at::Tensor query, key, value;             // [rows, heads, tokens, size], as given
    at::Tensor position_key, position_query;  // products, compute dtype [table rows, heads * size]
    Linear::Kept key_product, query_product;
    // Of the products, from Backward for BackwardWeights.
    at::Tensor position_key_gradient, position_query_gradient;
  };
  struct Gradients {
    at::Tensor query, key, value;
  };

  Disentangled(const AttentionSpec& spec, std::uint32_t layer, const FindParameter& find);

  // `context.relative` has the table's rows. Shaped as `query`, and zero at padding.
  at::Tensor Forward(const BatchContext& context, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, Kept* kept) const;
  // From the gradient of the result.
  Gradients Backward(const BatchContext& context, const at::Tensor& gradient, Kept* kept) const;
  // Adds to `context.relative.gradient`, too, where there is one.
  void BackwardWeights(const BatchContext& context, const Kept& kept) const;

 private:
  DistanceVectors VectorsOf(const BatchContext& context, const Kept& kept) const;
  at::Tensor OfTable(const BatchContext& context, const at::Tensor& by_distance,
                     bool reverse) const;

  std::int64_t heads_, head_size_;
  std::optional<Linear> position_key_, position_query_;
  DisentangledCore core_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_DISENTANGLED_H_
