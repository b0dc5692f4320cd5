#include "model/gpt2_network.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <utility>

namespace shoal::model {
namespace {

at::Tensor ToDevice(std::span<const float> values, std::int64_t rows, const std::string& device) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  // from_blob wants a mutable pointer; the tensor is only read.
  const at::Tensor host =
      at::from_blob(const_cast<float*>(values.data()), {rows, columns}, at::kFloat);
  return host.to(c10::Device(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor ToDevice(std::span<const std::int32_t> ids, const std::string& device) {
  const at::Tensor host = at::from_blob(const_cast<std::int32_t*>(ids.data()),
                                        {static_cast<std::int64_t>(ids.size())}, at::kInt);
  return host.to(at::kLong).to(c10::Device(device));
}

void ToHost(const at::Tensor& tensor, std::span<float> values) {
  SHOAL_CHECK(static_cast<std::size_t>(tensor.numel()) == values.size());
  at::from_blob(values.data(), tensor.sizes(), at::kFloat).copy_(tensor);
}

// Adds row i of `gradient` to row ids[i] of `table`, in order.
void AddRows(const at::Tensor& gradient, const at::Tensor& ids, const at::Tensor& table) {
  if (!table.is_cpu()) {
    table.add_(at::embedding_dense_backward(gradient, ids, table.size(0), -1, false));
    return;
  }
  const std::int64_t hidden = table.size(1);
  const at::Tensor rows = gradient.contiguous();
  const float* from = rows.const_data_ptr<float>();
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  float* const to = table.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < rows.size(0); ++row, from += hidden) {
    float* const sum = to + id[row] * hidden;
    for (std::int64_t i = 0; i < hidden; ++i) sum[i] += from[i];
  }
}

// Weyl steps of the golden ratio keep the seeds of different steps apart.
std::uint64_t MaskSeed(const StageOptions& options, MicroBatchId id) {
  return options.fresh_masks ? options.seed + (id.step + 1) * 0x9e3779b97f4a7c15 : options.seed;
}

}  // namespace

struct Gpt2Network::Embedding {
  at::Tensor tokens, positions;  // fp32
  at::Tensor tokens_gradient, positions_gradient;
};

struct Gpt2Network::Kept {
  BatchContext context;
  at::Tensor token_ids;   // first stage, int64 [rows * tokens]
  at::Tensor labels;      // last stage, int64 [rows * tokens]
  at::Tensor input;       // other stages, fp32 [rows * tokens, hidden]
  bool complete = false;  // the rest below is there
  at::Tensor embedding_mask;
  std::vector<std::shared_ptr<Gpt2Block::Kept>> blocks;
  std::shared_ptr<Gpt2Head::Kept> head;
  at::Tensor embedding_gradient;
  at::Tensor between;  // two parts: what the one above takes, or the gradient for the one below
};

Gpt2Network::Gpt2Network(const storage::ModelConfig& config, const StageOptions& options,
                         const FlatParameters& parameters)
    : config_(config), options_(options), device_(parameters.device()) {
  if (options.range.first_layer == 0) {
    embedding_ = std::make_unique<Embedding>();
    *embedding_ = {parameters.Value("wte.weight"), parameters.Value("wpe.weight"),
                   parameters.Gradient("wte.weight"), parameters.Gradient("wpe.weight")};
  }
  for (std::uint32_t layer = options.range.first_layer; layer < options.range.last_layer; ++layer) {
    blocks_.emplace_back(config, layer, parameters);
  }
  if (options.range.last_layer == config.layers) {
    head_ = std::make_unique<Gpt2Head>(config, parameters);
  }
}

Gpt2Network::~Gpt2Network() = default;

std::shared_ptr<Gpt2Network::Kept> Gpt2Network::Begin(const MicroBatch& micro_batch,
                                                      bool training) const {
  auto kept = std::make_shared<Kept>();
  kept->context = {micro_batch.rows, micro_batch.tokens, micro_batch.samples,
                   training ? options_.dropout : 0, MaskSeed(options_, micro_batch.id)};
  const std::int64_t tokens_in_all = std::int64_t{micro_batch.rows} * micro_batch.tokens;
  if (embedding_) kept->token_ids = ToDevice(micro_batch.token_ids, device_);
  if (!embedding_) kept->input = ToDevice(micro_batch.input, tokens_in_all, device_);
  if (head_ && !micro_batch.labels.empty()) kept->labels = ToDevice(micro_batch.labels, device_);
  return kept;
}

at::Tensor Gpt2Network::Embed(Kept* kept) const {
  const BatchContext& context = kept->context;
  const std::int64_t hidden = config_.hidden;
  at::Tensor sum = embedding_->tokens.index_select(0, kept->token_ids)
                       .view({context.rows, context.tokens, hidden})
                       .add_(embedding_->positions.narrow(0, 0, context.tokens))
                       .view({context.rows * context.tokens, hidden});
  kept->embedding_mask =
      DropoutMask(context, 0, DropoutSite::kEmbedding, context.tokens * hidden, sum);
  return ApplyDropout(sum, kept->embedding_mask, context.dropout);
}

void Gpt2Network::RunBlock(Kept* kept, std::size_t block, bool keep) const {
  if (block == 0) kept->blocks.clear();
  std::shared_ptr<Gpt2Block::Kept> kept_block;
  kept->between =
      blocks_[block].Forward(kept->context, kept->between, keep ? &kept_block : nullptr);
  if (keep) kept->blocks.push_back(std::move(kept_block));
}

at::Tensor Gpt2Network::RunBlocks(Kept* kept, bool keep) const {
  kept->between = embedding_ ? Embed(kept) : kept->input;
  for (std::size_t block = 0; block < blocks_.size(); ++block) RunBlock(kept, block, keep);
  return std::exchange(kept->between, at::Tensor());
}

std::size_t Gpt2Network::forward_parts() const {
  return (embedding_ ? 1u : 0u) + blocks_.size() + (head_ ? 1u : 0u);
}

double Gpt2Network::ForwardPart(Kept* kept, std::size_t part, bool keep,
                                std::span<float> output) const {
  if (part == 0) kept->between = embedding_ ? Embed(kept) : kept->input;
  const std::size_t above = part + (embedding_ ? 0u : 1u);  // 0: the embedding
  if (above > 0 && above <= blocks_.size()) RunBlock(kept, above - 1, keep);
  if (part + 1 < forward_parts()) return 0;
  const at::Tensor x = std::exchange(kept->between, at::Tensor());
  kept->complete = keep;
  if (head_) return head_->Forward(x, kept->labels, keep ? &kept->head : nullptr);
  if (!output.empty()) ToHost(x, output);
  return 0;
}

double Gpt2Network::Forward(Kept* kept, bool keep, std::span<float> output) const {
  double loss = 0;
  for (std::size_t part = 0; part < forward_parts(); ++part) {
    loss = ForwardPart(kept, part, keep, output);
  }
  return loss;
}

void Gpt2Network::BackwardPart(Kept* kept, std::size_t part, std::span<const float> output_gradient,
                               std::span<float> input_gradient) const {
  const BatchContext& context = kept->context;
  if (part == 0) {
    kept->between = head_ ? head_->BackwardInput(kept->head.get())
                          : ToDevice(output_gradient, context.rows * context.tokens, device_);
  }
  const std::size_t below = part + (head_ ? 0u : 1u);  // 0: the head
  if (below > 0) {
    const std::size_t block = blocks_.size() - below;
    kept->between = blocks_[block].BackwardInput(context, kept->between, kept->blocks[block].get());
  }
  if (part + 1 < backward_parts()) return;
  const at::Tensor gradient = std::exchange(kept->between, at::Tensor());
  if (embedding_) {
    kept->embedding_gradient = ApplyDropout(gradient, kept->embedding_mask, context.dropout);
  } else {
    ToHost(gradient, input_gradient);
  }
}

void Gpt2Network::BackwardInput(Kept* kept, std::span<const float> output_gradient,
                                std::span<float> input_gradient) const {
  if (!kept->complete) (void)Forward(kept, /*keep=*/true, {});
  for (std::size_t part = 0; part < backward_parts(); ++part) {
    BackwardPart(kept, part, output_gradient, input_gradient);
  }
}

std::size_t Gpt2Network::weight_parts() const {
  return (head_ ? 1u : 0u) + blocks_.size() + (embedding_ ? 1u : 0u);
}

void Gpt2Network::BackwardWeights(Kept* kept, std::size_t part) const {
  if (head_ && part == 0) {
    head_->BackwardWeights(*kept->head);
    kept->head.reset();
    return;
  }
  const std::size_t below = part - (head_ ? 1u : 0u);
  if (below < blocks_.size()) {
    const std::size_t i = blocks_.size() - 1 - below;
    blocks_[i].BackwardWeights(*kept->blocks[i]);
    kept->blocks[i].reset();
    return;
  }
  const BatchContext& context = kept->context;
  AddRows(kept->embedding_gradient, kept->token_ids, embedding_->tokens_gradient);
  embedding_->positions_gradient.narrow(0, 0, context.tokens)
      .add_(kept->embedding_gradient.view({context.rows, context.tokens, config_.hidden}).sum(0));
}

void Gpt2Network::Logits(Kept* kept, bool last_only, std::span<float> logits) const {
  const BatchContext& context = kept->context;
  at::Tensor x = RunBlocks(kept, /*keep=*/false);
  if (last_only) {
    x = x.view({context.rows, context.tokens, config_.hidden})
            .select(1, context.tokens - 1)
            .contiguous();
  }
  ToHost(head_->Logits(x), logits);
}

std::uint64_t Gpt2Network::KeptBytes(std::uint64_t rows, std::uint64_t tokens) const {
  const std::uint64_t tokens_in_all = rows * tokens;
  const std::uint64_t hidden = config_.hidden;
  const std::uint64_t value = options_.compute == "bf16" ? 2 : 4;
  std::uint64_t bytes =
      tokens_in_all * (embedding_ ? 8 : 4 * hidden) + (head_ ? tokens_in_all * 8 : 0);
  if (options_.recompute) return bytes;
  const std::uint64_t square = std::uint64_t{config_.heads} * tokens;  // attention, per token
  // Forward: 2 hidden in fp32, and in the compute dtype 6 hidden + 2 inner + attention; the
  // gradients that BackwardInput leaves: 5 hidden + inner.
  std::uint64_t per_token =
      4 * (2 * hidden + 4) + value * (11 * hidden + 3 * std::uint64_t{config_.inner} + square);
  if (options_.dropout > 0) per_token += 2 * hidden + square;
  bytes += tokens_in_all * per_token * blocks_.size();
  if (embedding_) bytes += tokens_in_all * hidden * (options_.dropout > 0 ? 5 : 4);
  return bytes + HeadBytes(tokens_in_all);
}

std::uint64_t Gpt2Network::HeadBytes(std::uint64_t tokens_in_all) const {
  if (!head_) return 0;
  const std::uint64_t value = options_.compute == "bf16" ? 2 : 4;
  const std::uint64_t logits = tokens_in_all * config_.vocabulary * value;
  return tokens_in_all * config_.hidden * (4 + value) +
         (logits <= Gpt2Head::kKeptLogitBytes ? logits : 0);
}

std::uint64_t Gpt2Network::PendingBytes(std::uint64_t rows, std::uint64_t tokens) const {
  const std::uint64_t tokens_in_all = rows * tokens;
  const std::uint64_t hidden = config_.hidden;
  const std::uint64_t value = options_.compute == "bf16" ? 2 : 4;
  // The inputs of the four products (3 hidden + inner) and their outputs' gradients (5 hidden +
  // inner) in the compute dtype, and the norms' means and deviations.
  const std::uint64_t per_token = 4 * 4 + value * (8 * hidden + 2 * std::uint64_t{config_.inner});
  return tokens_in_all * (embedding_ ? 8 + 5 * hidden : 4 * hidden) +
         (head_ ? tokens_in_all * 8 : 0) + tokens_in_all * per_token * blocks_.size() +
         HeadBytes(tokens_in_all);
}

}  // namespace shoal::model
