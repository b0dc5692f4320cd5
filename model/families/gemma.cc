// Gemma 2 and the text models of Gemma 3 (Gemma Team, 2024 and 2025): norms on both sides of each
// part with factors around one, scaled embeddings, windows in most layers; soft-capped scores and
// logits in the former, norms on queries and keys in the latter.

#include <cmath>

#include "model/families/decoder.h"
#include "model/families/families.h"
#include "model/families/rotary_keys.h"

namespace shoal::model {
namespace {

constexpr double kCapMost = 1e6;

DecoderShape ReadGemma(ConfigKeys* keys, bool own_rotary) {
  // Gemma 2's files name the activation twice, and the newer name counts.
  keys->Ignore({"hidden_act"});
  DecoderShape decoder = ReadDecoder(keys, {.activation_key = "hidden_activation",
                                            .activation = "gelu_pytorch_tanh",
                                            .tied = true,
                                            .own_rotary = own_rotary,
                                            .head_size = 256,
                                            .key_heads = 4});
  decoder.input_bias = decoder.output_bias = keys->Flag("attention_bias", false);
  decoder.around_one = decoder.norms_behind = true;
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.hidden));
  decoder.score_scale = 1 / std::sqrt(keys->Number("query_pre_attn_scalar", 256, 1e-6, 1e9));
  keys->Require("use_bidirectional_attention", false);
  return decoder;
}

double ReadCap(ConfigKeys* keys, const char* key, double otherwise) {
  return keys->IsNull(key) ? 0 : keys->Number(key, otherwise, 0, kCapMost);
}

std::int64_t ReadWindow(ConfigKeys* keys) {
  return keys->IsNull("sliding_window") ? 0 : keys->Count("sliding_window", kPositionsMost, 4096);
}

}  // namespace

const GgufFamily kGemma2Gguf = {.architecture = "gemma2",
                                .activation = Activation::kGeluTanh,
                                .narrow_heads = true,
                                .shared_head = true,
                                .whole_layer_every = 2,
                                .score_cap = true,
                                .wide_scale_layers = 46};
const GgufFamily kGemma3Gguf = {.architecture = "gemma3",
                                .activation = Activation::kGeluTanh,
                                .narrow_heads = true,
                                .whole_layer_every = 6,
                                .plain_window_positions = true,
                                .wide_scale_layers = 62};

ModelSpec DescribeGemma2(ConfigKeys* keys) {
  DecoderShape decoder = ReadGemma(keys, false);
  decoder.architecture = "Gemma2ForCausalLM";
  const std::int64_t window = ReadWindow(keys);
  const double cap = ReadCap(keys, "attn_logit_softcapping", 50);
  const auto sliding =
      ReadSlidingLayers(keys, decoder.layers, [](std::uint32_t layer) { return layer % 2 == 0; });
  decoder.change = [=](std::uint32_t layer, AttentionSpec* attention) {
    attention->window = sliding(layer) ? window : 0;
    attention->soft_cap = cap;
  };
  ModelSpec spec = SpecOf(decoder);
  spec.head.soft_cap = ReadCap(keys, "final_logit_softcapping", 30);
  return spec;
}

ModelSpec DescribeGemma3(ConfigKeys* keys) {
  DecoderShape decoder = ReadGemma(keys, true);
  decoder.architecture = "Gemma3ForCausalLM";
  decoder.head_norms = true;
  const std::int64_t window = ReadWindow(keys);
  const double cap = ReadCap(keys, "attn_logit_softcapping", 0);
  const std::uint32_t every = keys->Count("sliding_window_pattern", kLayersMost,
                                          keys->Count("_sliding_window_pattern", kLayersMost, 6));
  const auto sliding = ReadSlidingLayers(
      keys, decoder.layers, [every](std::uint32_t layer) { return (layer + 1) % every != 0; });
  RotaryBase base{decoder.head_size, decoder.positions};
  RotaryBase local = base;
  base.theta = keys->Number("rope_theta", 1e6, 2, 1e12);
  local.theta = keys->Number("rope_local_base_freq", 1e4, 2, 1e12);
  // Older files have the scaling of whole layers alone.
  ConfigKeys both = keys->Object("rope_parameters");
  ConfigKeys old_scaling = keys->Object("rope_scaling");
  ConfigKeys new_scaling = both.Object("full_attention");
  ConfigKeys local_scaling = both.Object("sliding_attention");
  const RotarySpec whole =
      ReadScaledRotary(keys->Has("rope_parameters") ? &new_scaling : &old_scaling, base);
  const RotarySpec windowed = ReadScaledRotary(&local_scaling, local);
  decoder.change = [=](std::uint32_t layer, AttentionSpec* attention) {
    attention->window = sliding(layer) ? window : 0;
    attention->rotary = sliding(layer) ? windowed : whole;
    attention->soft_cap = cap;
  };
  ModelSpec spec = SpecOf(decoder);
  spec.head.soft_cap = ReadCap(keys, "final_logit_softcapping", 0);
  return spec;
}

}  // namespace shoal::model
