#include "model/blocks/language_head.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include <utility>
#include "model/families/stage_memory.h"

namespace shoal::model {
namespace {

// Logits made at a time: 64 MiB in fp32.
constexpr std::int64_t kChunkValues = std::int64_t{1} << 24;
// Of which so many stay in a processor's cache through all passes over them.
constexpr std::int64_t kPieceValues = std::int64_t{1} << 18;

}  // namespace

LanguageHead::LanguageHead(const HeadSpec& spec, const FindParameter& find)
    : soft_cap_(spec.soft_cap), vocabulary_(spec.output.out), weight_(find(spec.output.weight)) {
  if (spec.norm) norm_.emplace(*spec.norm, find);
}

std::int64_t LanguageHead::ChunkTokens() const {
  return std::max<std::int64_t>(1, kChunkValues / vocabulary());
}

at::Tensor LanguageHead::Hidden(const at::Tensor& input, Norm::Kept* kept) const {
  return (norm_ ? norm_->Forward(input, kept) : input).to(weight_.dtype());
}

at::Tensor LanguageHead::Scores(const at::Tensor& hidden, const at::Tensor& weight) const {
  at::Tensor logits = at::mm(hidden, weight.t()).to(at::kFloat);
  if (soft_cap_ > 0) logits.div_(soft_cap_).tanh_().mul_(soft_cap_);
  return logits;
}

at::Tensor LanguageHead::Chunk(const at::Tensor& weight, const at::Tensor& hidden,
                               const at::Tensor& labels, std::int64_t chunk, bool want_gradient,
                               double* loss) const {
  const std::int64_t first = chunk * ChunkTokens();
  const std::int64_t count = std::min(ChunkTokens(), hidden.size(0) - first);
  at::Tensor logits = Scores(hidden.narrow(0, first, count), weight);
  const at::Tensor chosen = labels.narrow(0, first, count);
  const at::Tensor ignored = chosen.eq(kNoLabel).unsqueeze(1);
  const at::Tensor index = chosen.clamp_min(0).unsqueeze(1);
  const at::Tensor losses = logits.gather(1, index).neg_();
  const std::int64_t piece =
      logits.is_cpu() ? std::max<std::int64_t>(1, kPieceValues / vocabulary()) : count;
  for (std::int64_t row = 0; row < count; row += piece) {
    const std::int64_t rows = std::min(piece, count - row);
    losses.narrow(0, row, rows)
        .add_(LogitsToGradients(logits.narrow(0, row, rows), index.narrow(0, row, rows),
                                want_gradient));
  }
  if (loss != nullptr) {
    *loss += losses.masked_fill_(ignored, 0).to(at::kDouble).sum().item<double>();
  }
  if (!want_gradient) return {};
  return logits.masked_fill_(ignored, 0).to(hidden.scalar_type());
}

at::Tensor LanguageHead::LogitsToGradients(const at::Tensor& logits, const at::Tensor& index,
                                           bool want_gradient) const {
  // Of a capped logit c = cap tanh(l / cap): dc / dl = 1 - (c / cap)^2.
  const at::Tensor slope = want_gradient && soft_cap_ > 0
                               ? logits.div(soft_cap_).square_().neg_().add_(1)
                               : at::Tensor();
  const at::Tensor largest = logits.amax(1, true);
  const at::Tensor sum = logits.sub_(largest).exp_().sum(1, true);
  if (want_gradient) {
    logits.div_(sum).scatter_add_(1, index, at::full({logits.size(0), 1}, -1, logits.options()));
    if (slope.defined()) logits.mul_(slope);
  }
  return sum.log().add_(largest);
}

double LanguageHead::Forward(const at::Tensor& input, const at::Tensor& labels, Kept* kept) const {
  Norm::Kept norm;
  const at::Tensor hidden = Hidden(input, &norm);
  const std::int64_t tokens = input.size(0);
  const std::int64_t chunks = (tokens + ChunkTokens() - 1) / ChunkTokens();
  const auto bytes = static_cast<std::uint64_t>(tokens * vocabulary() * hidden.element_size());
  const bool keep_gradients = kept != nullptr && bytes <= kKeptLogitBytes;
  const at::Tensor weight = weight_.ForProduct();
  double loss = 0;
  if (kept != nullptr) *kept = {norm, hidden, labels, {}};
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    at::Tensor gradient = Chunk(weight, hidden, labels, chunk, keep_gradients, &loss);
    if (keep_gradients) kept->logit_gradients.push_back(std::move(gradient));
  }
  return loss;
}

at::Tensor LanguageHead::LogitGradient(const at::Tensor& weight, const Kept& kept,
                                       std::int64_t chunk) const {
  if (!kept.logit_gradients.empty()) return kept.logit_gradients[static_cast<std::size_t>(chunk)];
  return Chunk(weight, kept.hidden, kept.labels, chunk, true, nullptr);
}

at::Tensor LanguageHead::BackwardInput(Kept* kept) const {
  const std::int64_t tokens = kept->hidden.size(0);
  const at::Tensor weight = weight_.ForProduct();
  at::Tensor dhidden = at::empty(kept->hidden.sizes(), kept->hidden.options().dtype(at::kFloat));
  for (std::int64_t first = 0; first < tokens; first += ChunkTokens()) {
    const std::int64_t count = std::min(ChunkTokens(), tokens - first);
    dhidden.narrow(0, first, count)
        .copy_(at::mm(LogitGradient(weight, *kept, first / ChunkTokens()), weight));
  }
  return norm_ ? norm_->BackwardInput(dhidden, &kept->norm) : dhidden;
}

void LanguageHead::BackwardWeights(const Kept& kept) const {
  const std::int64_t tokens = weight_.trained() ? kept.hidden.size(0) : 0;
  for (std::int64_t first = 0; first < tokens; first += ChunkTokens()) {
    const std::int64_t count = std::min(ChunkTokens(), tokens - first);
    const at::Tensor gradient = LogitGradient(weight_.compute, kept, first / ChunkTokens());
    const at::Tensor hidden = kept.hidden.narrow(0, first, count);
    if (hidden.scalar_type() == at::kFloat) {
      weight_.gradient.addmm_(gradient.t(), hidden);
    } else {
      weight_.gradient.add_(at::mm(gradient.t(), hidden));
    }
  }
  if (norm_) norm_->BackwardWeights(kept.norm);
}

at::Tensor LanguageHead::Logits(const at::Tensor& input) const {
  Norm::Kept unused;
  return Scores(Hidden(input, &unused), weight_.ForProduct());
}

}  // namespace shoal::model
