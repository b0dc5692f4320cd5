#include "model/blocks/classifier_head.h"

#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>

#include "model/blocks/dropout_mask.h"
#include "model/blocks/feed_forward.h"
#include "model/blocks/language_head.h"

namespace shoal::model {

ClassifierHead::ClassifierHead(const HeadSpec& spec, const FindParameter& find)
    : dropout_before_(spec.dropout_before_pooler),
      activation_(spec.pooler_activation),
      pooler_(spec.pooler, find),
      output_(spec.output, find) {}

at::Tensor ClassifierHead::Scores(const BatchContext& context, const at::Tensor& input,
                                  Kept* kept) const {
  const std::int64_t hidden = input.size(1);
  at::Tensor first = input.view({context.rows, context.tokens, hidden}).select(1, 0).contiguous();
  if (dropout_before_) {
    kept->first_mask = DropoutMask(context, 0, DropoutSite::kPooler, hidden, input);
    first = ApplyDropout(first, kept->first_mask, context.dropout);
  }
  kept->first = first.to(pooler_.dtype());
  kept->pooler_output = pooler_.Forward(context, kept->first, &kept->pooler).to(at::kFloat);
  kept->pooled_mask = DropoutMask(context, 0, DropoutSite::kClassifier, hidden, input);
  kept->pooled =
      ApplyDropout(Activate(activation_, kept->pooler_output), kept->pooled_mask, context.dropout)
          .to(output_.dtype());
  return output_.Forward(context, kept->pooled, &kept->output).to(at::kFloat);
}

double ClassifierHead::Forward(const BatchContext& context, const at::Tensor& input,
                               const at::Tensor& labels, Kept* kept) const {
  Kept made;
  at::Tensor logits = Scores(context, input, &made);
  const at::Tensor chosen = labels.view({context.rows, context.tokens}).select(1, 0);
  const at::Tensor ignored = chosen.eq(LanguageHead::kNoLabel).unsqueeze(1);
  const at::Tensor index = chosen.clamp_min(0).unsqueeze(1);
  const at::Tensor log_sum = at::logsumexp(logits, 1, true);
  const at::Tensor losses = log_sum.sub(logits.gather(1, index)).masked_fill_(ignored, 0);
  if (kept != nullptr) {
    at::Tensor gradient = logits.sub_(log_sum).exp_();
    gradient.scatter_add_(1, index, at::full({context.rows, 1}, -1, logits.options()));
    made.logit_gradient = gradient.masked_fill_(ignored, 0).to(output_.dtype());
    *kept = made;
  }
  return losses.to(at::kDouble).sum().item<double>();
}

at::Tensor ClassifierHead::BackwardInput(const BatchContext& context, Kept* kept) const {
  at::Tensor dpooled = output_.BackwardInput(kept->logit_gradient, &kept->output).to(at::kFloat);
  dpooled = ApplyDropout(dpooled, kept->pooled_mask, context.dropout);
  kept->pooler_gradient =
      ActivateBackward(activation_, dpooled, kept->pooler_output).to(pooler_.dtype());
  at::Tensor dfirst = pooler_.BackwardInput(kept->pooler_gradient, &kept->pooler).to(at::kFloat);
  dfirst = ApplyDropout(dfirst, kept->first_mask, context.dropout);
  const at::Tensor dinput =
      at::zeros({context.rows, context.tokens, dfirst.size(1)}, dfirst.options());
  dinput.select(1, 0).copy_(dfirst);
  kept->pooler_output = kept->first_mask = kept->pooled_mask = at::Tensor();
  return dinput.view({context.tokens_in_all(), -1});
}

void ClassifierHead::BackwardWeights(const Kept& kept) const {
  output_.BackwardWeights(kept.pooled, kept.logit_gradient, kept.output);
  pooler_.BackwardWeights(kept.first, kept.pooler_gradient, kept.pooler);
}

at::Tensor ClassifierHead::Logits(const BatchContext& context, const at::Tensor& input) const {
  Kept unused;
  return Scores(context, input, &unused);
}

}  // namespace shoal::model
