// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019).

#include <cmath>

#include "model/families/families.h"

namespace shoal::model {
namespace {

LinearSpec Conv(const std::string& name, std::int64_t in, std::int64_t out, double deviation) {
  return {name + ".weight", name + ".bias", in, out, /*in_first=*/true, deviation};
}

NormSpec Norm(const std::string& name, std::int64_t size, double epsilon) {
  return {NormKind::kLayerNorm, name + ".weight", name + ".bias", size, epsilon, false};
}

void CheckSwitches(ConfigKeys* keys) {
  keys->Require("add_cross_attention", false);
  // How fp16 scores are rounded; sums of scores are fp32 here.
  keys->Ignore({"reorder_and_upcast_attn", "n_ctx", "summary_activation", "summary_first_dropout",
                "summary_proj_to_labels", "summary_type", "summary_use_proj"});
}

}  // namespace

const GgufFamily kGpt2Gguf = {.architecture = "gpt2",
                              .activation = Activation::kGeluTanh,
                              .output_bias = true,
                              .feed_forward_bias = true};

ModelSpec DescribeGpt2(ConfigKeys* keys) {
  ModelSpec spec;
  const std::uint32_t layers = keys->Count("n_layer", kLayersMost);
  spec.hidden = keys->Count("n_embd", kHiddenMost);
  spec.vocabulary = keys->Count("vocab_size", kVocabularyMost);
  const bool positions = keys->Has("n_positions") || !keys->Has("n_ctx");
  spec.positions = keys->Count(positions ? "n_positions" : "n_ctx", kPositionsMost);
  const std::int64_t hidden = spec.hidden;
  const std::int64_t heads = keys->Count("n_head", kHeadsMost);
  const std::int64_t inner = keys->Count("n_inner", kInnerMost, 4 * spec.hidden);
  const Activation activation = ReadActivation(keys, "activation_function", "gelu_new");
  const double epsilon = keys->Number("layer_norm_epsilon", 1e-5, 0, 1);
  const double deviation = keys->Number("initializer_range", 0.02, 0, 1e3);
  const bool tied = keys->Flag("tie_word_embeddings", true);
  const bool by_size = keys->Flag("scale_attn_weights", true);
  const bool by_layer = keys->Flag("scale_attn_by_inverse_layer_idx", false);
  CheckSwitches(keys);
  if (hidden % heads != 0) {
    keys->Fail("n_embd " + std::to_string(hidden) + " is no multiple of n_head " +
               std::to_string(heads));
  }
  if (!keys->status().ok()) return spec;
  spec.embedding.tokens = {"wte.weight", spec.vocabulary, deviation};
  spec.embedding.positions = TableSpec{"wpe.weight", spec.positions, deviation};
  const double behind = deviation / std::sqrt(2.0 * layers);  // before a residual sum
  const std::int64_t head_size = hidden / heads;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string h = "h." + std::to_string(i) + ".";
    LayerSpec& layer = spec.layer_specs.emplace_back();
    layer.attention_norm = Norm(h + "ln_1", hidden, epsilon);
    layer.attention.inputs = {Conv(h + "attn.c_attn", hidden, 3 * hidden, deviation)};
    layer.attention.output = Conv(h + "attn.c_proj", hidden, hidden, behind);
    layer.attention.heads = layer.attention.key_heads = heads;
    layer.attention.head_size = head_size;
    layer.attention.scale = by_size ? 1 / std::sqrt(static_cast<double>(head_size)) : 1;
    if (by_layer) layer.attention.scale /= i + 1.0;
    layer.feed_forward_norm = Norm(h + "ln_2", hidden, epsilon);
    layer.feed_forward.inputs = {Conv(h + "mlp.c_fc", hidden, inner, deviation)};
    layer.feed_forward.output = Conv(h + "mlp.c_proj", inner, hidden, behind);
    layer.feed_forward.inner = inner;
    layer.feed_forward.activation = activation;
  }
  spec.head.norm = Norm("ln_f", hidden, epsilon);
  spec.head.output = {
      tied ? "wte.weight" : "lm_head.weight", "", hidden, spec.vocabulary, false, deviation};
  spec.files = {"transformer.",
                {"lm_head.weight"},
                {".attn.bias", ".attn.masked_bias"},  // masks that older exports store
                "lm_head.weight",
                "GPT2LMHeadModel"};
  return spec;
}

}  // namespace shoal::model
