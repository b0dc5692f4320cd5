// The last stage's end of a classifier: a dense product with its activation over each row's first
// token, a score per class, and the summed cross entropy in fp32.

#ifndef SHOAL_MODEL_BLOCKS_CLASSIFIER_HEAD_H_
#define SHOAL_MODEL_BLOCKS_CLASSIFIER_HEAD_H_

#include "model/blocks/linear.h"
#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

class ClassifierHead {
 public:
  struct Kept {
    at::Tensor first, pooled;            // inputs of the two products, compute dtype [rows, hidden]
    at::Tensor pooler_output;            // fp32 [rows, hidden], before the activation
    at::Tensor first_mask, pooled_mask;  // of dropout
    at::Tensor logit_gradient;           // compute dtype [rows, classes]
    at::Tensor pooler_gradient;          // of the first product, from BackwardInput
    Linear::Kept pooler, output;
  };

  ClassifierHead(const HeadSpec& spec, const FindParameter& find);

  // `input` fp32 [rows * tokens, hidden], `labels` int64 [rows * tokens], of which a row's first
  // counts (-100: none). Returns the sum of -log p over them. Fills `*kept` unless it is null.
  double Forward(const BatchContext& context, const at::Tensor& input, const at::Tensor& labels,
                 Kept* kept) const;
  // Gradient of that sum with respect to the input: zero but at first tokens.
  at::Tensor BackwardInput(const BatchContext& context, Kept* kept) const;
  void BackwardWeights(const Kept& kept) const;
  // fp32 [rows, classes].
  at::Tensor Logits(const BatchContext& context, const at::Tensor& input) const;

 private:
  at::Tensor Scores(const BatchContext& context, const at::Tensor& input, Kept* kept) const;

  bool dropout_before_;
  Activation activation_;
  Linear pooler_, output_;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_CLASSIFIER_HEAD_H_
