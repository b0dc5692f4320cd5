#include "model/families/encoder.h"

#include <cmath>

#include "model/families/families.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr std::uint32_t kClassesMost = 1U << 16;
constexpr std::uint32_t kClassesOtherwise = 2;  // as in transformers

}  // namespace

Encoder Encoder::Read(ConfigKeys* keys, double epsilon) {
  Encoder encoder;
  encoder.layers = keys->Count("num_hidden_layers", kLayersMost);
  encoder.hidden = keys->Count("hidden_size", kHiddenMost);
  encoder.inner = keys->Count("intermediate_size", kInnerMost);
  encoder.heads = keys->Count("num_attention_heads", kHeadsMost);
  encoder.vocabulary = keys->Count("vocab_size", kVocabularyMost);
  encoder.positions = keys->Count("max_position_embeddings", kPositionsMost);
  encoder.epsilon = keys->Number("layer_norm_eps", epsilon, 0, 1);
  encoder.deviation = keys->Number("initializer_range", 0.02, 0, 1e3);
  encoder.activation = ReadActivation(keys, "hidden_act", "gelu");
  if (encoder.hidden % encoder.heads != 0) {
    keys->Fail("hidden_size " + std::to_string(encoder.hidden) +
               " is no multiple of num_attention_heads " + std::to_string(encoder.heads));
  }
  return encoder;
}

LinearSpec Encoder::Linear(const std::string& name, std::int64_t in, std::int64_t out) const {
  return {name + ".weight", name + ".bias", in, out, /*in_first=*/false, deviation};
}

NormSpec Encoder::Norm(const std::string& name) const {
  return {NormKind::kLayerNorm, name + ".weight", name + ".bias", hidden, epsilon, false};
}

std::string Encoder::LayerPrefix(std::uint32_t layer) {
  return "encoder.layer." + std::to_string(layer) + ".";
}

LayerSpec Encoder::Layer(std::uint32_t number, const std::array<const char*, 3>& products) const {
  const std::string prefix = LayerPrefix(number);
  LayerSpec layer;
  layer.norm_of_sum = true;
  AttentionSpec& attention = layer.attention;
  for (const char* name : products) {
    attention.inputs.push_back(Linear(prefix + "attention.self." + name, hidden, hidden));
  }
  attention.output = Linear(prefix + "attention.output.dense", hidden, hidden);
  attention.heads = attention.key_heads = heads;
  attention.head_size = hidden / heads;
  attention.causal = false;
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_size));
  layer.attention_out_norm = Norm(prefix + "attention.output.LayerNorm");
  layer.feed_forward.inputs = {Linear(prefix + "intermediate.dense", hidden, inner)};
  layer.feed_forward.output = Linear(prefix + "output.dense", inner, hidden);
  layer.feed_forward.inner = inner;
  layer.feed_forward.activation = activation;
  layer.feed_forward_out_norm = Norm(prefix + "output.LayerNorm");
  return layer;
}

std::uint32_t ReadClasses(ConfigKeys* keys) {
  const std::uint32_t named = keys->Entries("id2label", kClassesMost);
  const std::uint32_t otherwise = named > 0 ? named : kClassesOtherwise;
  const std::uint32_t classes = keys->Count("num_labels", kClassesMost, otherwise);
  if (named > 0 && named != classes) {
    keys->Fail("num_labels is " + std::to_string(classes) + ", but id2label has " +
               std::to_string(named) + " classes");
  }
  if (classes < 2)
    keys->Fail("a classifier needs at least 2 classes, num_labels or id2label has 1");
  return classes;
}

void RequireOneClassARow(ConfigKeys* keys) {
  const std::string problem = keys->Text("problem_type", "single_label_classification");
  if (problem == "single_label_classification") return;
  keys->Fail("problem_type " + storage::Quoted(problem) +
             " is not supported; supported is single_label_classification");
}

}  // namespace shoal::model
