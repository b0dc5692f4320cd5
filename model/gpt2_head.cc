#include "model/gpt2_head.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include <algorithm>
#include <vector>

#include "model/stage_model.h"

namespace shoal::model {
namespace {

// Logits made at a time: 64 MiB in fp32.
constexpr std::int64_t kChunkValues = std::int64_t{1} << 24;

}  // namespace

struct Gpt2Head::Weights {
  at::Tensor norm_weight, norm_bias, norm_weight_gradient, norm_bias_gradient;  // fp32
  at::Tensor head;           // compute dtype, [vocabulary, hidden]
  at::Tensor head_gradient;  // fp32
};

struct Gpt2Head::Kept {
  at::Tensor input;  // fp32
  at::Tensor mean, reciprocal_deviation;
  at::Tensor hidden;  // normed, compute dtype
  at::Tensor labels;
  std::vector<at::Tensor> logit_gradients;  // per chunk; empty: made again when needed
  at::Tensor norm_weight_gradient, norm_bias_gradient;
};

Gpt2Head::Gpt2Head(const storage::ModelConfig& config, const FlatParameters& parameters)
    : vocabulary_(config.vocabulary),
      epsilon_(config.layer_norm_epsilon),
      weights_(std::make_unique<Weights>()) {
  const std::string head = config.tied_head ? "wte.weight" : "lm_head.weight";
  *weights_ = {parameters.Value("ln_f.weight"),    parameters.Value("ln_f.bias"),
               parameters.Gradient("ln_f.weight"), parameters.Gradient("ln_f.bias"),
               parameters.ComputeValue(head),      parameters.Gradient(head)};
}

Gpt2Head::~Gpt2Head() = default;

std::int64_t Gpt2Head::ChunkTokens() const {
  return std::max<std::int64_t>(1, kChunkValues / vocabulary_);
}

at::Tensor Gpt2Head::Chunk(const at::Tensor& hidden, const at::Tensor& labels, std::int64_t chunk,
                           bool want_gradient, double* loss) const {
  const std::int64_t first = chunk * ChunkTokens();
  const std::int64_t count = std::min(ChunkTokens(), hidden.size(0) - first);
  at::Tensor logits = at::mm(hidden.narrow(0, first, count), weights_->head.t()).to(at::kFloat);
  const at::Tensor chosen = labels.narrow(0, first, count);
  const at::Tensor counts = chosen.ne(kIgnoredLabel).unsqueeze(1);
  const at::Tensor index = chosen.clamp_min(0).unsqueeze(1);
  const at::Tensor log_sum = at::logsumexp(logits, 1, true);
  if (loss != nullptr) {
    const at::Tensor losses = log_sum.sub(logits.gather(1, index)).masked_fill_(counts.eq(0), 0);
    *loss += losses.to(at::kDouble).sum().item<double>();
  }
  if (!want_gradient) return {};
  logits.sub_(log_sum).exp_();
  logits.scatter_add_(1, index, at::full({count, 1}, -1, logits.options()));
  return logits.masked_fill_(counts.eq(0), 0).to(hidden.scalar_type());
}

double Gpt2Head::Forward(const at::Tensor& input, const at::Tensor& labels,
                         std::shared_ptr<Kept>* kept) const {
  auto keep = std::make_shared<Kept>();
  auto [normed, mean, deviation] = at::native_layer_norm(
      input, {input.size(1)}, weights_->norm_weight, weights_->norm_bias, epsilon_);
  const at::Tensor hidden = normed.to(weights_->head.scalar_type());
  const std::int64_t tokens = input.size(0);
  const std::int64_t chunks = (tokens + ChunkTokens() - 1) / ChunkTokens();
  const auto bytes = static_cast<std::uint64_t>(tokens * vocabulary_ * hidden.element_size());
  const bool keep_gradients = kept != nullptr && bytes <= kKeptLogitBytes;
  double loss = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    at::Tensor gradient = Chunk(hidden, labels, chunk, keep_gradients, &loss);
    if (keep_gradients) keep->logit_gradients.push_back(std::move(gradient));
  }
  if (kept != nullptr) {
    keep->input = input;
    keep->mean = mean;
    keep->reciprocal_deviation = deviation;
    keep->hidden = hidden;
    keep->labels = labels;
    *kept = std::move(keep);
  }
  return loss;
}

at::Tensor Gpt2Head::LogitGradient(const Kept& kept, std::int64_t chunk) const {
  if (!kept.logit_gradients.empty()) return kept.logit_gradients[static_cast<std::size_t>(chunk)];
  return Chunk(kept.hidden, kept.labels, chunk, true, nullptr);
}

at::Tensor Gpt2Head::BackwardInput(Kept* kept) const {
  const std::int64_t tokens = kept->hidden.size(0);
  at::Tensor dhidden = at::empty(kept->hidden.sizes(), kept->input.options());
  for (std::int64_t first = 0; first < tokens; first += ChunkTokens()) {
    const std::int64_t count = std::min(ChunkTokens(), tokens - first);
    dhidden.narrow(0, first, count)
        .copy_(at::mm(LogitGradient(*kept, first / ChunkTokens()), weights_->head));
  }
  auto [dinput, dweight, dbias] = at::native_layer_norm_backward(
      dhidden, kept->input, {kept->input.size(1)}, kept->mean, kept->reciprocal_deviation,
      weights_->norm_weight, weights_->norm_bias, {true, true, true});
  kept->norm_weight_gradient = dweight;
  kept->norm_bias_gradient = dbias;
  kept->input = at::Tensor();  // only needed here
  return dinput;
}

void Gpt2Head::BackwardWeights(const Kept& kept) const {
  const std::int64_t tokens = kept.hidden.size(0);
  for (std::int64_t first = 0; first < tokens; first += ChunkTokens()) {
    const std::int64_t count = std::min(ChunkTokens(), tokens - first);
    const at::Tensor gradient = LogitGradient(kept, first / ChunkTokens());
    const at::Tensor hidden = kept.hidden.narrow(0, first, count);
    if (hidden.scalar_type() == at::kFloat) {
      weights_->head_gradient.addmm_(gradient.t(), hidden);
    } else {
      weights_->head_gradient.add_(at::mm(gradient.t(), hidden));
    }
  }
  weights_->norm_weight_gradient.add_(kept.norm_weight_gradient);
  weights_->norm_bias_gradient.add_(kept.norm_bias_gradient);
}

at::Tensor Gpt2Head::Logits(const at::Tensor& input) const {
  auto [normed, mean, deviation] = at::native_layer_norm(
      input, {input.size(1)}, weights_->norm_weight, weights_->norm_bias, epsilon_);
  return at::mm(normed.to(weights_->head.scalar_type()), weights_->head.t()).to(at::kFloat);
}

}  // namespace shoal::model
