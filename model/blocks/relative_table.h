// The table of distances between tokens that all layers of a model use (He et al., "DeBERTa",
// 2021).

#ifndef SHOAL_MODEL_BLOCKS_RELATIVE_TABLE_H_
#define SHOAL_MODEL_BLOCKS_RELATIVE_TABLE_H_

#include <optional>

#include "model/blocks/norm.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// The table's row of each distance q - k from 1 - tokens to tokens - 1: int64 [2 tokens - 1] on the
// CPU. The arithmetic is fp32, operation by operation, as where the models come from: the borders
// of the buckets hang on its roundings.
at::Tensor PlacesOfDistances(const RelativeSpec& spec, std::int64_t tokens);

class RelativeTable {
 public:
  using Kept = Norm::Kept;

  RelativeTable(const RelativeSpec& spec, const FindParameter& find, at::ScalarType compute);

  // For rows of so many tokens. `training`: with room for the gradient, if there is one.
  RelativeContext Forward(std::int64_t tokens, bool training, Kept* kept) const;
  // From the gradient that the layers have added up.
  void BackwardWeights(const RelativeContext& context, Kept* kept) const;

 private:
  RelativeSpec spec_;
  at::ScalarType compute_;
  Parameter table_;
  std::optional<Norm> norm_;
  bool trained_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_RELATIVE_TABLE_H_
