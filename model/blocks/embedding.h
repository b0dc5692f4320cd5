// The first stage's begin: rows of the tables for tokens, positions and types, summed, and brought
// to the hidden size.

#ifndef SHOAL_MODEL_BLOCKS_EMBEDDING_H_
#define SHOAL_MODEL_BLOCKS_EMBEDDING_H_

#include <optional>

#include "model/blocks/linear.h"
#include "model/blocks/norm.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class Embedding {
 public:
  struct Kept {
    at::Tensor mask;  // of dropout
    Norm::Kept norm;
    at::Tensor sum;                 // of rows, compute dtype; where there is a projection
    at::Tensor gradient;            // of that, fp32, from BackwardInput for BackwardWeights
    at::Tensor projected_gradient;  // compute dtype [rows * tokens, hidden]
    Linear::Kept product;
  };

  Embedding(const EmbeddingSpec& spec, const FindParameter& find);

  // Whether anything of it is.
  bool trained() const;

  // `ids` int64 [rows * tokens] to fp32 [rows * tokens, hidden].
  at::Tensor Forward(const BatchContext& context, const at::Tensor& ids, Kept* kept) const;
  // Both for one that is trained alone.
  void BackwardInput(const BatchContext& context, const at::Tensor& gradient, Kept* kept) const;
  void BackwardWeights(const BatchContext& context, const at::Tensor& ids, const Kept& kept) const;

 private:
  EmbeddingSpec spec_;
  Parameter tokens_, positions_, types_;
  std::optional<Linear> projection_;
  std::optional<Norm> norm_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_EMBEDDING_H_
