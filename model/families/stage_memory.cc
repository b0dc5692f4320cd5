#include "model/families/stage_memory.h"

#include <algorithm>

namespace shoal::model {
namespace {

constexpr std::uint64_t kSegmentBytes = 24;  // of a row's description (blocks/row_segments.h)

std::uint64_t Unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::uint64_t ValueBytes(const StageShape& stage) { return stage.bf16 ? 2 : sizeof(float); }

std::uint64_t InAll(MicroBatchShape shape) { return std::uint64_t{shape.rows} * shape.tokens; }

// Of a token in a layer: values in the compute dtype and in fp32.
struct TokenValues {
  std::uint64_t compute = 0, full = 0, bytes = 0;
};

// What lies between the matrices of a layer's adapters, its gradient, and packed masks.
TokenValues AdaptersOf(const LayerSpec& layer) {
  TokenValues values;
  const auto add = [&values](const LinearSpec& product) {
    if (!product.lora) return;
    values.compute += 2 * Unsigned(product.lora->rank);
    if (product.lora->dropout > 0) values.bytes += Unsigned((product.in + 7) / 8);
  };
  std::ranges::for_each(layer.attention.inputs, add);
  std::ranges::for_each(layer.feed_forward.inputs, add);
  add(layer.attention.output);
  add(layer.feed_forward.output);
  return values;
}

// What the products' backward needs: their inputs and their outputs' gradients.
TokenValues PendingOf(const LayerSpec& layer, std::uint64_t hidden) {
  const AttentionSpec& attention = layer.attention;
  const std::uint64_t query = Unsigned(attention.heads * attention.head_size);
  const std::uint64_t key = Unsigned(attention.key_heads * attention.head_size);
  const std::uint64_t inner = Unsigned(layer.feed_forward.inner);
  const std::uint64_t inputs = layer.feed_forward.gated ? 2 * inner : inner;
  TokenValues pending = AdaptersOf(layer);
  pending.compute += 2 * hidden + query + inner + 2 * hidden + query + 2 * key + inputs;
  return pending;
}

TokenValues KeptOf(const LayerSpec& layer, std::uint64_t hidden, const StageShape& stage) {
  TokenValues kept = PendingOf(layer, hidden);
  const AttentionSpec& attention = layer.attention;
  const std::uint64_t query = Unsigned(attention.heads * attention.head_size);
  const std::uint64_t key = Unsigned(attention.key_heads * attention.head_size);
  kept.compute +=
      query + 2 * key + Unsigned(layer.feed_forward.inner) * (layer.feed_forward.gated ? 2 : 1);
  for (const auto* norm : {&layer.attention_norm, &layer.attention_out_norm,
                           &layer.feed_forward_norm, &layer.feed_forward_out_norm}) {
    if (*norm) kept.full += hidden + 2;
  }
  if (attention.query_norm) kept.full += query + Unsigned(attention.heads);
  if (attention.key_norm) kept.full += key + Unsigned(attention.key_heads);
  kept.full += Unsigned(attention.heads);  // sums of scores
  if (stage.dropout) kept.bytes += 2 * hidden;
  return kept;
}

// Inputs of both products and their outputs' gradients, the pooled values, masks, logits.
std::uint64_t ClassifierBytes(const ModelSpec& spec, const StageShape& stage,
                              MicroBatchShape shape) {
  const std::uint64_t value = ValueBytes(stage);
  return shape.rows * (spec.hidden * (3 * value + sizeof(float) + 2) + spec.classes() * value);
}

std::uint64_t HeadBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape) {
  if (spec.classes() > 0) return ClassifierBytes(spec, stage, shape);
  const std::uint64_t tokens = InAll(shape), value = ValueBytes(stage);
  return tokens * spec.hidden * (sizeof(float) + value) +
         (KeepsLogits(spec, stage, shape) ? tokens * spec.vocabulary * value : 0);
}

bool First(const StageShape& stage) { return stage.first_layer == 0; }
bool Last(const ModelSpec& spec, const StageShape& stage) {
  return stage.last_layer == spec.layers();
}

// Token ids and their types or the input, labels, positions, places of distances, and segments: at
// most one per token.
std::uint64_t InputBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape) {
  const std::uint64_t id = sizeof(std::int64_t);
  const std::uint64_t ids = spec.token_types() > 1 ? 2 * id : id;
  return InAll(shape) * ((First(stage) ? ids : sizeof(float) * spec.hidden) +
                         (Last(spec, stage) ? id : 0) + sizeof(std::int64_t) + kSegmentBytes) +
         (spec.relative ? 2 * shape.tokens * id : 0);
}

// Of the table that all layers use, whatever the tokens: its rows, their gradient, and what each
// layer makes of them, or the gradients of that.
std::uint64_t TableBytes(const ModelSpec& spec, const StageShape& stage) {
  if (!spec.relative) return 0;
  const std::uint64_t rows = Unsigned(spec.relative->table.rows), value = ValueBytes(stage);
  std::uint64_t bytes = rows * (spec.hidden * (value + 2 * sizeof(float)) + 2 * sizeof(float));
  for (std::uint32_t layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const AttentionSpec& attention = spec.layer_specs[layer].attention;
    const std::uint64_t products = (attention.disentangled->position_key ? 1 : 0) +
                                   (attention.disentangled->position_query ? 1 : 0);
    bytes += products * rows * Unsigned(attention.heads * attention.head_size) * value;
  }
  return bytes;
}

// Of the sum of rows and its gradient, and of the projection's output.
std::uint64_t ProjectionBytes(const ModelSpec& spec, const StageShape& stage,
                              MicroBatchShape shape) {
  if (!spec.embedding.projection) return 0;
  const std::uint64_t width = Unsigned(spec.embedding.projection->in), value = ValueBytes(stage);
  return InAll(shape) * (width * (value + sizeof(float)) + spec.hidden * value);
}

template <typename Of>
std::uint64_t LayerBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape,
                         const Of& of) {
  std::uint64_t bytes = 0;
  for (std::uint32_t layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const TokenValues values = of(spec.layer_specs[layer]);
    bytes += InAll(shape) *
             (values.compute * ValueBytes(stage) + values.full * sizeof(float) + values.bytes);
  }
  return bytes;
}

}  // namespace

bool KeepsLogits(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape) {
  return spec.classes() > 0 ||
         InAll(shape) * spec.vocabulary * ValueBytes(stage) <= kKeptLogitBytes;
}

std::uint64_t KeptBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape) {
  std::uint64_t bytes = InputBytes(spec, stage, shape);
  if (stage.recompute) return bytes;
  bytes += TableBytes(spec, stage);
  bytes += LayerBytes(spec, stage, shape,
                      [&](const LayerSpec& layer) { return KeptOf(layer, spec.hidden, stage); });
  if (First(stage)) {
    const std::uint64_t norm = spec.embedding.norm ? sizeof(float) : 0;
    bytes += InAll(shape) * spec.hidden * (sizeof(float) + norm + (stage.dropout ? 1 : 0)) +
             ProjectionBytes(spec, stage, shape);
  }
  return bytes + (Last(spec, stage) ? HeadBytes(spec, stage, shape) : 0);
}

std::uint64_t PendingBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape) {
  std::uint64_t bytes = InputBytes(spec, stage, shape) + TableBytes(spec, stage);
  bytes += LayerBytes(spec, stage, shape,
                      [&](const LayerSpec& layer) { return PendingOf(layer, spec.hidden); });
  if (First(stage)) {
    bytes += InAll(shape) * spec.hidden * sizeof(float) + ProjectionBytes(spec, stage, shape);
  }
  return bytes + (Last(spec, stage) ? HeadBytes(spec, stage, shape) : 0);
}

}  // namespace shoal::model
