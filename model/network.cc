#include "model/network.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Device.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "model/blocks/classifier_head.h"
#include "model/blocks/embedding.h"
#include "model/blocks/language_head.h"
#include "model/blocks/layer.h"
#include "model/blocks/relative_table.h"
#include "model/blocks/row_segments.h"

namespace shoal::model {
namespace {

static_assert(LanguageHead::kNoLabel == kIgnoredLabel);

c10::TensorOptions FloatsOn(const std::string& device) {
  return at::TensorOptions(at::kFloat).device(c10::Device(device));
}

// A copy on `device` of values that lie on `from`.
at::Tensor Copied(std::span<const float> values, std::int64_t rows, const std::string& from,
                  const std::string& device) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  // from_blob wants a mutable pointer; the tensor is only read.
  const at::Tensor given =
      at::from_blob(const_cast<float*>(values.data()), {rows, columns}, FloatsOn(from));
  return given.to(c10::Device(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor ToDevice(std::span<const std::int32_t> ids, const std::string& device) {
  const at::Tensor host = at::from_blob(const_cast<std::int32_t*>(ids.data()),
                                        {static_cast<std::int64_t>(ids.size())}, at::kInt);
  return host.to(at::kLong).to(c10::Device(device));
}

// To values that lie on `to`.
void CopyOut(const at::Tensor& tensor, const std::string& to, std::span<float> values) {
  SHOAL_CHECK(static_cast<std::size_t>(tensor.numel()) == values.size());
  at::from_blob(values.data(), tensor.sizes(), FloatsOn(to)).copy_(tensor);
}

void ToHost(const at::Tensor& tensor, std::span<float> values) { CopyOut(tensor, "cpu", values); }

// Weyl steps of the golden ratio keep the seeds of different steps apart.
std::uint64_t MaskSeed(const StageOptions& options, MicroBatchId id) {
  return options.fresh_masks ? options.seed + (id.step + 1) * 0x9e3779b97f4a7c15 : options.seed;
}

void SetSegments(std::span<const std::int32_t> numbers, const std::string& device,
                 BatchContext* context) {
  if (numbers.empty()) return;
  Result<std::vector<RowSegment>> segments = FindSegments(numbers, context->tokens);
  SHOAL_CHECK(segments.ok());  // CheckMicroBatch found them, too
  if (AreWholeRows(*segments, context->rows, context->tokens)) return;
  context->positions = ToDevice(PositionsOf(*segments, context->rows, context->tokens), device);
  context->segments = std::move(*segments);
  context->segments.shrink_to_fit();
}

// 0 before each row's border, 1 from there on.
void SetTypes(std::span<const std::uint32_t> borders, const std::string& device,
              BatchContext* context) {
  const auto tokens = static_cast<std::size_t>(context->tokens);
  if (std::ranges::all_of(borders, [&](std::uint32_t border) { return border >= tokens; })) return;
  std::vector<std::int32_t> types(borders.size() * tokens, 0);
  for (std::size_t row = 0; row < borders.size(); ++row) {
    const auto begin = types.begin() + static_cast<std::ptrdiff_t>(row * tokens);
    std::fill(begin + borders[row], begin + static_cast<std::ptrdiff_t>(tokens), 1);
  }
  context->types = ToDevice(types, device);
}

// One table for all layers that turn alike.
class RotaryTables {
 public:
  std::shared_ptr<Rotary> Find(const RotarySpec& spec) {
    for (const auto& table : tables_) {
      if (table->spec().frequencies == spec.frequencies && table->spec().factor == spec.factor) {
        return table;
      }
    }
    return tables_.emplace_back(std::make_shared<Rotary>(spec));
  }

 private:
  std::vector<std::shared_ptr<Rotary>> tables_;
};

}  // namespace

struct Network::Blocks {
  std::optional<RelativeTable> relative;  // all stages of a model that has one
  std::optional<Embedding> embedding;     // first stage only
  std::vector<Layer> layers;
  // One of them, last stage only.
  std::optional<LanguageHead> head;
  std::optional<ClassifierHead> classifier;

  bool last() const { return head || classifier; }
};

struct Network::Kept {
  BatchContext context;
  at::Tensor token_ids;   // first stage, int64 [rows * tokens]
  at::Tensor labels;      // last stage, int64 [rows * tokens]
  at::Tensor input;       // other stages, fp32 [rows * tokens, hidden]
  bool complete = false;  // the rest below is there
  RelativeTable::Kept relative;
  Embedding::Kept embedding;
  std::vector<Layer::Kept> layers;
  LanguageHead::Kept head;
  ClassifierHead::Kept classifier;
  at::Tensor between;  // two parts: what the one above takes, or the gradient for the one below
};

struct Network::Row {
  std::vector<KeyValues> layers;
};

Network::Network(const ModelSpec& spec, const StageOptions& options,
                 const FlatParameters& parameters, const FrozenParameters& frozen,
                 const std::string& values_device)
    : hidden_(spec.hidden),
      options_(options),
      device_(parameters.device()),
      values_device_(values_device),
      blocks_(std::make_unique<Blocks>()) {
  const FindParameter find = [&](const std::string& name) {
    if (frozen.Has(name)) return frozen.Find(name);
    return Parameter{parameters.Value(name), parameters.ComputeValue(name),
                     parameters.Gradient(name)};
  };
  RotaryTables tables;
  const FindRotary rotary = [&](const RotarySpec& wanted) { return tables.Find(wanted); };
  if (spec.relative) {
    const at::ScalarType compute = parameters.bf16() ? at::kBFloat16 : at::kFloat;
    blocks_->relative.emplace(*spec.relative, find, compute);
  }
  if (options.range.first_layer == 0) blocks_->embedding.emplace(spec.embedding, find);
  for (std::uint32_t layer = options.range.first_layer; layer < options.range.last_layer; ++layer) {
    blocks_->layers.emplace_back(spec.layer_specs[layer], layer, find, rotary);
  }
  if (options.range.last_layer < spec.layers()) return;
  if (spec.head.kind == HeadKind::kClassifier) {
    blocks_->classifier.emplace(spec.head, find);
  } else {
    blocks_->head.emplace(spec.head, find);
  }
}

Network::~Network() = default;

std::shared_ptr<Network::Kept> Network::Begin(const MicroBatch& micro_batch, bool training) const {
  auto kept = std::make_shared<Kept>();
  kept->context = {micro_batch.rows, micro_batch.tokens, micro_batch.samples,
                   training ? options_.dropout : 0, MaskSeed(options_, micro_batch.id)};
  kept->context.training = training;
  SetSegments(micro_batch.segments, device_, &kept->context);
  if (blocks_->embedding) {
    kept->token_ids = ToDevice(micro_batch.token_ids, device_);
    SetTypes(micro_batch.type_borders, device_, &kept->context);
  } else {
    kept->input = Copied(micro_batch.input, kept->context.tokens_in_all(), values_device_, device_);
  }
  if (blocks_->last() && !micro_batch.labels.empty()) {
    kept->labels = ToDevice(micro_batch.labels, device_);
  }
  return kept;
}

// What the layers of the stage see of the micro-batch before the first of them.
void Network::BeginForward(Kept* kept) const {
  BatchContext& context = kept->context;
  if (blocks_->relative) {
    context.relative =
        blocks_->relative->Forward(context.tokens, context.training, &kept->relative);
  }
  kept->between = blocks_->embedding
                      ? blocks_->embedding->Forward(context, kept->token_ids, &kept->embedding)
                      : kept->input;
}

void Network::RunLayer(Kept* kept, std::size_t layer, bool keep) const {
  if (layer == 0) kept->layers.clear();
  Layer::Kept kept_layer;
  kept->between = blocks_->layers[layer].Forward(kept->context, kept->between, &kept_layer);
  if (keep) kept->layers.push_back(std::move(kept_layer));
}

std::size_t Network::forward_parts() const {
  return (blocks_->embedding ? 1U : 0U) + blocks_->layers.size() + (blocks_->last() ? 1U : 0U);
}

double Network::HeadForward(Kept* kept, const at::Tensor& x, bool keep) const {
  if (blocks_->classifier) {
    return blocks_->classifier->Forward(kept->context, x, kept->labels,
                                        keep ? &kept->classifier : nullptr);
  }
  return blocks_->head->Forward(x, kept->labels, keep ? &kept->head : nullptr);
}

double Network::ForwardPart(Kept* kept, std::size_t part, bool keep,
                            std::span<float> output) const {
  if (part == 0) BeginForward(kept);
  const std::size_t above = part + (blocks_->embedding ? 0U : 1U);  // 0: the embedding
  if (above > 0 && above <= blocks_->layers.size()) RunLayer(kept, above - 1, keep);
  if (part + 1 < forward_parts()) return 0;
  const at::Tensor x = std::exchange(kept->between, at::Tensor());
  kept->complete = keep;
  if (!keep) {
    kept->embedding = {};
    kept->relative = {};
    kept->context.relative = {};
  }
  if (blocks_->last()) return HeadForward(kept, x, keep);
  if (!output.empty()) CopyOut(x, values_device_, output);
  return 0;
}

double Network::Forward(Kept* kept, bool keep, std::span<float> output) const {
  double loss = 0;
  for (std::size_t part = 0; part < forward_parts(); ++part) {
    loss = ForwardPart(kept, part, keep, output);
  }
  return loss;
}

std::size_t Network::weight_parts() const {
  return forward_parts() + (blocks_->relative ? 1U : 0U);
}

std::size_t Network::backward_parts() const {
  return (blocks_->last() ? 1U : 0U) + blocks_->layers.size();
}

void Network::BackwardPart(Kept* kept, std::size_t part, std::span<const float> output_gradient,
                           std::span<float> input_gradient) const {
  const BatchContext& context = kept->context;
  if (part == 0) {
    kept->between = blocks_->head ? blocks_->head->BackwardInput(&kept->head)
                    : blocks_->classifier
                        ? blocks_->classifier->BackwardInput(context, &kept->classifier)
                        : Copied(output_gradient, context.tokens_in_all(), values_device_, device_);
  }
  const std::size_t below = part + (blocks_->last() ? 0U : 1U);  // 0: the head
  if (below > 0) {
    const std::size_t layer = blocks_->layers.size() - below;
    const bool wanted = layer > 0 || !blocks_->embedding || blocks_->embedding->trained();
    kept->between =
        blocks_->layers[layer].BackwardInput(context, kept->between, &kept->layers[layer], wanted);
  }
  if (part + 1 < backward_parts()) return;
  const at::Tensor gradient = std::exchange(kept->between, at::Tensor());
  if (blocks_->embedding) {
    if (blocks_->embedding->trained()) {
      blocks_->embedding->BackwardInput(context, gradient, &kept->embedding);
    } else {
      kept->embedding = {};
    }
  } else {
    CopyOut(gradient, values_device_, input_gradient);
  }
}

void Network::BackwardInput(Kept* kept, std::span<const float> output_gradient,
                            std::span<float> input_gradient) const {
  if (!kept->complete) (void)Forward(kept, /*keep=*/true, {});
  for (std::size_t part = 0; part < backward_parts(); ++part) {
    BackwardPart(kept, part, output_gradient, input_gradient);
  }
}

void Network::BackwardWeights(Kept* kept, std::size_t part) const {
  if (blocks_->last() && part == 0) {
    if (blocks_->head) blocks_->head->BackwardWeights(kept->head);
    if (blocks_->classifier) blocks_->classifier->BackwardWeights(kept->classifier);
    kept->head = {};
    kept->classifier = {};
    return;
  }
  const std::size_t below = part - (blocks_->last() ? 1U : 0U);
  if (below < blocks_->layers.size()) {
    const std::size_t layer = blocks_->layers.size() - 1 - below;
    blocks_->layers[layer].BackwardWeights(kept->context, kept->layers[layer]);
    kept->layers[layer] = {};
    return;
  }
  if (blocks_->embedding && below == blocks_->layers.size()) {
    if (blocks_->embedding->trained()) {
      blocks_->embedding->BackwardWeights(kept->context, kept->token_ids, kept->embedding);
    }
    return;
  }
  blocks_->relative->BackwardWeights(kept->context.relative, &kept->relative);
}

void Network::Logits(Kept* kept, bool last_only, std::span<float> logits) const {
  const BatchContext& context = kept->context;
  BeginForward(kept);
  for (std::size_t layer = 0; layer < blocks_->layers.size(); ++layer) {
    RunLayer(kept, layer, /*keep=*/false);
  }
  at::Tensor x = std::exchange(kept->between, at::Tensor());
  if (blocks_->classifier) return ToHost(blocks_->classifier->Logits(context, x), logits);
  if (last_only) {
    x = x.view({context.rows, context.tokens, std::int64_t{hidden_}})
            .select(1, context.tokens - 1)
            .contiguous();
  }
  ToHost(blocks_->head->Logits(x), logits);
}

std::shared_ptr<Network::Row> Network::BeginRow() const {
  SHOAL_CHECK(blocks_->embedding && blocks_->head);
  return std::make_shared<Row>(Row{std::vector<KeyValues>(blocks_->layers.size())});
}

void Network::ContinueRow(Row* row, std::int64_t past, std::span<const std::int32_t> ids,
                          std::span<float> logits) const {
  BatchContext context;
  context.rows = 1;
  context.tokens = static_cast<std::int64_t>(ids.size());
  context.samples = {SampleId{0}};
  context.past = past;
  Embedding::Kept unused;
  at::Tensor x = blocks_->embedding->Forward(context, ToDevice(ids, device_), &unused);
  for (std::size_t layer = 0; layer < blocks_->layers.size(); ++layer) {
    Layer::Kept kept;
    kept.attention.row = &row->layers[layer];
    x = blocks_->layers[layer].Forward(context, x, &kept);
  }
  ToHost(blocks_->head->Logits(x.narrow(0, context.tokens - 1, 1)), logits);
}

}  // namespace shoal::model
