#include "model/blocks/layer.h"

namespace shoal::model {
namespace {

std::optional<Norm> NewNorm(const std::optional<NormSpec>& spec, const FindParameter& find) {
  return spec ? std::optional<Norm>(std::in_place, *spec, find) : std::nullopt;
}

}  // namespace

Layer::Layer(const LayerSpec& spec, std::uint32_t layer, const FindParameter& find,
             const FindRotary& rotary)
    : layer_(layer),
      norm_of_sum_(spec.norm_of_sum),
      attention_norm_(NewNorm(spec.attention_norm, find)),
      attention_out_norm_(NewNorm(spec.attention_out_norm, find)),
      feed_forward_norm_(NewNorm(spec.feed_forward_norm, find)),
      feed_forward_out_norm_(NewNorm(spec.feed_forward_out_norm, find)),
      attention_(spec.attention, layer, find, rotary),
      feed_forward_(spec.feed_forward, find) {}

at::Tensor Layer::Before(const std::optional<Norm>& norm, const at::Tensor& x,
                         Norm::Kept* kept) const {
  return (norm ? norm->Forward(x, kept) : x).to(attention_.dtype());
}

at::Tensor Layer::BeforeBackward(const std::optional<Norm>& norm, const at::Tensor& gradient,
                                 Norm::Kept* kept) const {
  return norm ? norm->BackwardInput(gradient, kept) : gradient.to(at::kFloat);
}

at::Tensor Layer::Sum(const std::optional<Norm>& norm, const at::Tensor& x, const at::Tensor& part,
                      const at::Tensor& mask, double dropout, Norm::Kept* kept) const {
  if (norm && !norm_of_sum_) {
    return x.add(ApplyDropout(norm->Forward(part.to(at::kFloat), kept), mask, dropout));
  }
  const at::Tensor sum = x.add(ApplyDropout(part, mask, dropout));
  return norm ? norm->Forward(sum, kept) : sum;
}

Layer::SumGradients Layer::SumBackward(const std::optional<Norm>& norm, const at::Tensor& gradient,
                                       const at::Tensor& mask, double dropout,
                                       Norm::Kept* kept) const {
  const at::Tensor dsum = norm && norm_of_sum_ ? norm->BackwardInput(gradient, kept) : gradient;
  at::Tensor dpart = ApplyDropout(dsum, mask, dropout);
  if (norm && !norm_of_sum_) dpart = norm->BackwardInput(dpart, kept);
  return {dsum, dpart.to(attention_.dtype())};
}

at::Tensor Layer::Forward(const BatchContext& context, const at::Tensor& input, Kept* kept) const {
  const std::int64_t per_sample = context.tokens * input.size(1);
  kept->attention_mask =
      DropoutMask(context, layer_, DropoutSite::kAttentionOutput, per_sample, input);
  const at::Tensor attended = attention_.Forward(
      context, Before(attention_norm_, input, &kept->attention_norm), &kept->attention);
  const at::Tensor middle = Sum(attention_out_norm_, input, attended, kept->attention_mask,
                                context.dropout, &kept->attention_out_norm);
  kept->feed_forward_mask =
      DropoutMask(context, layer_, DropoutSite::kMlpOutput, per_sample, input);
  const at::Tensor fed = feed_forward_.Forward(
      context, Before(feed_forward_norm_, middle, &kept->feed_forward_norm), &kept->feed_forward);
  return Sum(feed_forward_out_norm_, middle, fed, kept->feed_forward_mask, context.dropout,
             &kept->feed_forward_out_norm);
}

at::Tensor Layer::BackwardInput(const BatchContext& context, const at::Tensor& output_gradient,
                                Kept* kept, bool wanted) const {
  const SumGradients last =
      SumBackward(feed_forward_out_norm_, output_gradient, kept->feed_forward_mask, context.dropout,
                  &kept->feed_forward_out_norm);
  const at::Tensor dmiddle = last.x.add(BeforeBackward(
      feed_forward_norm_, feed_forward_.BackwardInput(last.part, &kept->feed_forward),
      &kept->feed_forward_norm));
  const SumGradients first = SumBackward(attention_out_norm_, dmiddle, kept->attention_mask,
                                         context.dropout, &kept->attention_out_norm);
  kept->attention_mask = kept->feed_forward_mask = at::Tensor();
  // The norm's own gradients come from what the products give it.
  const bool through = wanted || (attention_norm_ && attention_norm_->trained());
  const at::Tensor dnormed =
      attention_.BackwardInput(context, first.part, &kept->attention, through);
  if (!through) {
    kept->attention_norm = {};
    return {};
  }
  return first.x.add(BeforeBackward(attention_norm_, dnormed, &kept->attention_norm));
}

void Layer::BackwardWeights(const BatchContext& context, const Kept& kept) const {
  feed_forward_.BackwardWeights(kept.feed_forward);
  attention_.BackwardWeights(context, kept.attention);
  if (feed_forward_out_norm_) feed_forward_out_norm_->BackwardWeights(kept.feed_forward_out_norm);
  if (feed_forward_norm_) feed_forward_norm_->BackwardWeights(kept.feed_forward_norm);
  if (attention_out_norm_) attention_out_norm_->BackwardWeights(kept.attention_out_norm);
  if (attention_norm_) attention_norm_->BackwardWeights(kept.attention_norm);
}

}  // namespace shoal::model
