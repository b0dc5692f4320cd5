#include "model/gpt2_block.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_dropout_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

namespace shoal::model {
namespace {

constexpr std::string_view kTanh = "tanh";

c10::string_view Tanh() { return {kTanh.data(), kTanh.size()}; }

// A matrix product's weight and bias with their gradients.
struct Linear {
  at::Tensor weight;  // compute dtype, [in, out]
  at::Tensor bias;
  at::Tensor weight_gradient;  // fp32 views
  at::Tensor bias_gradient;

  Linear() = default;
  Linear(const FlatParameters& parameters, const std::string& name)
      : weight(parameters.ComputeValue(name + ".weight")),
        bias(parameters.ComputeValue(name + ".bias")),
        weight_gradient(parameters.Gradient(name + ".weight")),
        bias_gradient(parameters.Gradient(name + ".bias")) {}

  at::Tensor Forward(const at::Tensor& x) const { return at::addmm(bias, x, weight); }
  at::Tensor BackwardInput(const at::Tensor& gradient) const {
    return at::mm(gradient, weight.t());
  }
  void BackwardWeights(const at::Tensor& x, const at::Tensor& gradient) const {
    if (x.scalar_type() == at::kFloat) {
      weight_gradient.addmm_(x.t(), gradient);
    } else {
      weight_gradient.add_(at::mm(x.t(), gradient));
    }
    bias_gradient.add_(gradient.sum(at::IntArrayRef{0}, false, at::kFloat));
  }
};

struct Norm {
  at::Tensor weight;  // fp32
  at::Tensor bias;
  at::Tensor weight_gradient;
  at::Tensor bias_gradient;

  Norm() = default;
  Norm(const FlatParameters& parameters, const std::string& name)
      : weight(parameters.Value(name + ".weight")),
        bias(parameters.Value(name + ".bias")),
        weight_gradient(parameters.Gradient(name + ".weight")),
        bias_gradient(parameters.Gradient(name + ".bias")) {}
};

struct NormKept {
  at::Tensor input;  // fp32
  at::Tensor mean;
  at::Tensor reciprocal_deviation;
  at::Tensor weight_gradient;  // this micro-batch's share
  at::Tensor bias_gradient;
};

at::Tensor NormForward(const Norm& norm, const at::Tensor& x, double epsilon, NormKept* kept) {
  auto [y, mean, deviation] =
      at::native_layer_norm(x, {x.size(1)}, norm.weight, norm.bias, epsilon);
  *kept = {x, mean, deviation, {}, {}};
  return y;
}

at::Tensor NormBackward(const Norm& norm, const at::Tensor& gradient, NormKept* kept) {
  const at::Tensor& x = kept->input;
  auto [dx, dweight, dbias] = at::native_layer_norm_backward(
      gradient.to(at::kFloat), x, {x.size(1)}, kept->mean, kept->reciprocal_deviation, norm.weight,
      norm.bias, {true, true, true});
  kept->weight_gradient = dweight;
  kept->bias_gradient = dbias;
  return dx;
}

void NormBackwardWeights(const Norm& norm, const NormKept& kept) {
  norm.weight_gradient.add_(kept.weight_gradient);
  norm.bias_gradient.add_(kept.bias_gradient);
}

// 0 where position q may see position k, minus infinity where k > q.
at::Tensor CausalBias(std::int64_t tokens, const at::Tensor& like) {
  return at::full({1, tokens, tokens}, -std::numeric_limits<float>::infinity(), like.options())
      .triu_(1);
}

}  // namespace

struct Gpt2Block::Weights {
  Norm norm1;
  Norm norm2;
  Linear attention;
  Linear projection;
  Linear expand;
  Linear contract;
};

struct Gpt2Block::Kept {
  NormKept norm1;
  NormKept norm2;
  at::Tensor attention_in;       // compute dtype from here on, [rows * tokens, ...]
  at::Tensor query, key, value;  // [rows * heads, tokens, head size]
  at::Tensor probabilities;      // [rows * heads, tokens, tokens], before dropout
  at::Tensor projection_in;
  at::Tensor expand_in;
  at::Tensor activation_in;
  at::Tensor contract_in;
  at::Tensor attention_mask, projection_mask, contract_mask;
  // Gradients of the products' outputs, from BackwardInput for BackwardWeights.
  at::Tensor attention_gradient, projection_gradient, expand_gradient, contract_gradient;

  // Lets go of what only BackwardInput needs.
  void DropForwardOnly() {
    query = key = value = probabilities = activation_in = at::Tensor();
    attention_mask = projection_mask = contract_mask = at::Tensor();
    norm1.input = norm2.input = at::Tensor();
  }
};

at::Tensor DropoutMask(const BatchContext& context, std::uint32_t layer, DropoutSite site,
                       std::int64_t per_sample, const at::Tensor& like) {
  if (context.dropout <= 0) return {};
  at::Tensor mask = at::empty({context.rows, per_sample}, at::kByte);
  const auto count = static_cast<std::size_t>(per_sample);
  for (std::int64_t row = 0; row < context.rows; ++row) {
    const DropoutKey key{context.seed, context.samples[static_cast<std::size_t>(row)], layer, site};
    FillDropoutMask(key, context.dropout,
                    {mask.mutable_data_ptr<std::uint8_t>() + row * per_sample, count});
  }
  return mask.to(like.device(), at::kBool);
}

at::Tensor ApplyDropout(const at::Tensor& x, const at::Tensor& mask, double probability) {
  if (!mask.defined()) return x;
  return at::native_dropout_backward(x, mask.view(x.sizes()), 1 / (1 - probability));
}

Gpt2Block::Gpt2Block(const storage::ModelConfig& config, std::uint32_t layer,
                     const FlatParameters& parameters)
    : layer_(layer),
      heads_(config.heads),
      hidden_(config.hidden),
      epsilon_(config.layer_norm_epsilon),
      weights_(std::make_unique<Weights>()) {
  const std::string prefix = "h." + std::to_string(layer);
  weights_->norm1 = Norm(parameters, prefix + ".ln_1");
  weights_->norm2 = Norm(parameters, prefix + ".ln_2");
  weights_->attention = Linear(parameters, prefix + ".attn.c_attn");
  weights_->projection = Linear(parameters, prefix + ".attn.c_proj");
  weights_->expand = Linear(parameters, prefix + ".mlp.c_fc");
  weights_->contract = Linear(parameters, prefix + ".mlp.c_proj");
}

Gpt2Block::~Gpt2Block() = default;
Gpt2Block::Gpt2Block(Gpt2Block&&) noexcept = default;

at::Tensor Gpt2Block::Attention(const BatchContext& context, const at::Tensor& normed,
                                Kept* kept) const {
  const std::int64_t head_size = hidden_ / heads_;
  const at::Tensor split = weights_->attention.Forward(normed)
                               .view({context.rows, context.tokens, 3, heads_, head_size})
                               .permute({2, 0, 3, 1, 4})
                               .reshape({3, context.rows * heads_, context.tokens, head_size});
  kept->query = split.select(0, 0);
  kept->key = split.select(0, 1);
  kept->value = split.select(0, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(head_size));
  const at::Tensor scores = at::baddbmm(CausalBias(context.tokens, kept->query), kept->query,
                                        kept->key.transpose(1, 2), 1, scale);
  kept->probabilities = at::_softmax(scores, -1, false);
  kept->attention_mask = DropoutMask(context, layer_, DropoutSite::kAttention,
                                     heads_ * context.tokens * context.tokens, normed);
  const at::Tensor weighted = at::bmm(
      ApplyDropout(kept->probabilities, kept->attention_mask, context.dropout), kept->value);
  return weighted.view({context.rows, heads_, context.tokens, head_size})
      .permute({0, 2, 1, 3})
      .reshape({context.rows * context.tokens, hidden_});
}

at::Tensor Gpt2Block::Forward(const BatchContext& context, const at::Tensor& input,
                              std::shared_ptr<Kept>* kept) const {
  auto keep = std::make_shared<Kept>();
  const at::ScalarType dtype = weights_->attention.weight.scalar_type();
  const std::int64_t per_sample = context.tokens * hidden_;

  keep->attention_in = NormForward(weights_->norm1, input, epsilon_, &keep->norm1).to(dtype);
  keep->projection_in = Attention(context, keep->attention_in, keep.get());
  keep->projection_mask =
      DropoutMask(context, layer_, DropoutSite::kAttentionOutput, per_sample, input);
  const at::Tensor middle = input.add(ApplyDropout(
      weights_->projection.Forward(keep->projection_in), keep->projection_mask, context.dropout));

  keep->expand_in = NormForward(weights_->norm2, middle, epsilon_, &keep->norm2).to(dtype);
  keep->activation_in = weights_->expand.Forward(keep->expand_in);
  keep->contract_in = at::gelu(keep->activation_in, Tanh());
  keep->contract_mask = DropoutMask(context, layer_, DropoutSite::kMlpOutput, per_sample, input);
  const at::Tensor output = middle.add(ApplyDropout(weights_->contract.Forward(keep->contract_in),
                                                    keep->contract_mask, context.dropout));
  if (kept != nullptr) *kept = std::move(keep);
  return output;
}

at::Tensor Gpt2Block::AttentionBackward(const BatchContext& context, const at::Tensor& gradient,
                                        Kept* kept) const {
  const std::int64_t head_size = hidden_ / heads_;
  const double scale = 1 / std::sqrt(static_cast<double>(head_size));
  const at::Tensor dweighted = gradient.view({context.rows, context.tokens, heads_, head_size})
                                   .permute({0, 2, 1, 3})
                                   .reshape({context.rows * heads_, context.tokens, head_size});
  const at::Tensor dropped =
      ApplyDropout(kept->probabilities, kept->attention_mask, context.dropout);
  const at::Tensor dprobabilities = ApplyDropout(at::bmm(dweighted, kept->value.transpose(1, 2)),
                                                 kept->attention_mask, context.dropout);
  const at::Tensor dscores = at::_softmax_backward_data(dprobabilities, kept->probabilities, -1,
                                                        kept->probabilities.scalar_type());
  at::Tensor dsplit =
      at::empty({3, context.rows * heads_, context.tokens, head_size}, gradient.options());
  dsplit.select(0, 0).copy_(at::bmm(dscores, kept->key).mul_(scale));
  dsplit.select(0, 1).copy_(at::bmm(dscores.transpose(1, 2), kept->query).mul_(scale));
  dsplit.select(0, 2).copy_(at::bmm(dropped.transpose(1, 2), dweighted));
  kept->attention_gradient = dsplit.view({3, context.rows, heads_, context.tokens, head_size})
                                 .permute({1, 3, 0, 2, 4})
                                 .reshape({context.rows * context.tokens, 3 * hidden_});
  return weights_->attention.BackwardInput(kept->attention_gradient);
}

at::Tensor Gpt2Block::BackwardInput(const BatchContext& context, const at::Tensor& output_gradient,
                                    Kept* kept) const {
  const at::ScalarType dtype = kept->contract_in.scalar_type();
  kept->contract_gradient =
      ApplyDropout(output_gradient, kept->contract_mask, context.dropout).to(dtype);
  kept->expand_gradient = at::gelu_backward(
      weights_->contract.BackwardInput(kept->contract_gradient), kept->activation_in, Tanh());
  const at::Tensor dmiddle = output_gradient.add(NormBackward(
      weights_->norm2, weights_->expand.BackwardInput(kept->expand_gradient), &kept->norm2));
  kept->projection_gradient =
      ApplyDropout(dmiddle, kept->projection_mask, context.dropout).to(dtype);
  const at::Tensor dattention = AttentionBackward(
      context, weights_->projection.BackwardInput(kept->projection_gradient), kept);
  const at::Tensor dinput = dmiddle.add(NormBackward(weights_->norm1, dattention, &kept->norm1));
  kept->DropForwardOnly();
  return dinput;
}

void Gpt2Block::BackwardWeights(const Kept& kept) const {
  weights_->contract.BackwardWeights(kept.contract_in, kept.contract_gradient);
  weights_->expand.BackwardWeights(kept.expand_in, kept.expand_gradient);
  weights_->projection.BackwardWeights(kept.projection_in, kept.projection_gradient);
  weights_->attention.BackwardWeights(kept.attention_in, kept.attention_gradient);
  NormBackwardWeights(weights_->norm2, kept.norm2);
  NormBackwardWeights(weights_->norm1, kept.norm1);
}

}  // namespace shoal::model
