#include "model/blocks/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace shoal::model {

Attention::Attention(const AttentionSpec& spec, std::uint32_t layer, const FindParameter& find,
                     const FindRotary& rotary)
    : spec_(spec), output_(spec.output, find), core_(spec, layer) {
  for (const LinearSpec& input : spec.inputs) inputs_.emplace_back(input, find);
  if (spec.query_norm) query_norm_.emplace(*spec.query_norm, find);
  if (spec.key_norm) key_norm_.emplace(*spec.key_norm, find);
  if (spec.rotary) rotary_ = rotary(*spec.rotary);
  if (spec.disentangled) disentangled_.emplace(spec, layer, find);
}

AttentionCore::KeyValue KeyValues::Extend(std::int64_t past, const at::Tensor& new_key,
                                          const at::Tensor& new_value) {
  const std::int64_t tokens = past + new_key.size(2);
  const auto extend = [&](at::Tensor* all, const at::Tensor& more) {
    if (!all->defined() || all->size(2) < tokens) {
      const std::int64_t room = all->defined() ? std::max(tokens, 2 * all->size(2)) : tokens;
      at::Tensor larger = at::empty({1, more.size(1), room, more.size(3)}, more.options());
      if (past > 0) larger.narrow(2, 0, past).copy_(all->narrow(2, 0, past));
      *all = larger;
    }
    all->narrow(2, past, more.size(2)).copy_(more);
    return all->narrow(2, 0, tokens);
  };
  return {extend(&key, new_key), extend(&value, new_value)};
}

// [rows * tokens, heads * size] to [rows, heads, tokens, size].
at::Tensor Attention::Heads(const BatchContext& context, const at::Tensor& flat,
                            std::int64_t heads) const {
  return flat.unflatten(1, {heads, spec_.head_size})
      .unflatten(0, {context.rows, context.tokens})
      .permute({0, 2, 1, 3});
}

at::Tensor Attention::Place(const BatchContext& context, const std::optional<Norm>& norm,
                            const at::Tensor& heads, Norm::Kept* kept) const {
  at::Tensor placed = heads;
  if (norm) placed = norm->Forward(heads.to(at::kFloat), kept).to(heads.scalar_type());
  return rotary_ ? rotary_->Turn(context, placed) : placed;
}

at::Tensor Attention::PlaceBack(const BatchContext& context, const std::optional<Norm>& norm,
                                const at::Tensor& gradient, Norm::Kept* kept) const {
  const at::Tensor turned = rotary_ ? rotary_->TurnBack(context, gradient) : gradient;
  return norm ? norm->BackwardInput(turned, kept).to(gradient.scalar_type()) : turned;
}

at::Tensor Attention::Forward(const BatchContext& context, const at::Tensor& x, Kept* kept) const {
  kept->input = x;
  const std::int64_t query = spec_.heads * spec_.head_size;
  const std::int64_t key = spec_.key_heads * spec_.head_size;
  std::vector<at::Tensor> made;
  kept->input_products.resize(inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    made.push_back(inputs_[i].Forward(context, x, &kept->input_products[i]));
  }
  if (made.size() == 1) {
    made = made[0].split_with_sizes({query, key, key}, 1);
    // Else the value would keep the queries and keys as they were before they turned.
    if (rotary_) made[2] = made[2].clone();
  }
  AttentionCore::KeyValue seen = {
      Place(context, key_norm_, Heads(context, made[1], spec_.key_heads), &kept->key_norm),
      Heads(context, made[2], spec_.key_heads)};
  if (kept->row != nullptr) {
    AttentionCore::KeyValue row = kept->row->Extend(context.past, seen.key, seen.value);
    if (context.past > 0) seen = std::move(row);
  }
  const at::Tensor asks =
      Place(context, query_norm_, Heads(context, made[0], spec_.heads), &kept->query_norm);
  const at::Tensor out =
      disentangled_
          ? disentangled_->Forward(context, asks, seen.key, seen.value, &kept->disentangled)
          : core_.Forward(context, asks, seen.key, seen.value, &kept->core);
  kept->merged = out.permute({0, 2, 1, 3}).reshape({context.tokens_in_all(), query});
  return output_.Forward(context, kept->merged, &kept->output_product);
}

at::Tensor Attention::BackwardInput(const BatchContext& context, const at::Tensor& gradient,
                                    Kept* kept, bool wanted) const {
  kept->output_gradient = gradient;
  const at::Tensor dmerged =
      Heads(context, output_.BackwardInput(gradient, &kept->output_product), spec_.heads);
  AttentionCore::Gradients heads;
  if (disentangled_) {
    const auto made = disentangled_->Backward(context, dmerged, &kept->disentangled);
    heads = {made.query, made.key, made.value};
  } else {
    heads = core_.Backward(context, dmerged, &kept->core);
  }
  const auto flat = [&](const at::Tensor& gradient_of_heads) {
    return gradient_of_heads.permute({0, 2, 1, 3}).reshape({context.tokens_in_all(), -1});
  };
  kept->input_gradients = {flat(PlaceBack(context, query_norm_, heads.query, &kept->query_norm)),
                           flat(PlaceBack(context, key_norm_, heads.key, &kept->key_norm)),
                           flat(heads.value)};
  if (inputs_.size() == 1) kept->input_gradients = {at::cat(kept->input_gradients, 1)};
  at::Tensor sum;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const at::Tensor dx =
        inputs_[i].BackwardInput(kept->input_gradients[i], &kept->input_products[i], wanted);
    if (i == 0) {
      sum = dx;
    } else if (wanted) {
      sum.add_(dx);
    }
  }
  return sum;
}

void Attention::BackwardWeights(const BatchContext& context, const Kept& kept) const {
  output_.BackwardWeights(kept.merged, kept.output_gradient, kept.output_product);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].BackwardWeights(kept.input, kept.input_gradients[i], kept.input_products[i]);
  }
  if (disentangled_) disentangled_->BackwardWeights(context, kept.disentangled);
  if (query_norm_) query_norm_->BackwardWeights(kept.query_norm);
  if (key_norm_) key_norm_->BackwardWeights(kept.key_norm);
}

}  // namespace shoal::model
