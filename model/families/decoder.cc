#include "model/families/decoder.h"

#include <cmath>
#include <utility>
#include <vector>

#include "model/families/families.h"
#include "model/families/rotary_keys.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

// Names and sizes of one layer's tensors.
class LayerBuilder {
 public:
  LayerBuilder(const DecoderShape& decoder, std::uint32_t layer)
      : decoder_(decoder), prefix_("layers." + std::to_string(layer) + ".") {}

  LayerSpec Build() const {
    LayerSpec layer;
    layer.attention_norm = Norm("input_layernorm", decoder_.hidden);
    const std::string second = "post_attention_layernorm";
    if (decoder_.norms_behind) {
      layer.attention_out_norm = Norm(second, decoder_.hidden);
      layer.feed_forward_norm = Norm("pre_feedforward_layernorm", decoder_.hidden);
      layer.feed_forward_out_norm = Norm("post_feedforward_layernorm", decoder_.hidden);
    } else {
      layer.feed_forward_norm = Norm(second, decoder_.hidden);
    }
    layer.attention = Attention();
    layer.feed_forward = FeedForward();
    return layer;
  }

 private:
  NormSpec Norm(const std::string& name, std::int64_t size) const {
    return {NormKind::kRmsNorm, prefix_ + name + ".weight", "", size,
            decoder_.epsilon,   decoder_.around_one};
  }
  LinearSpec Linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) const {
    return {prefix_ + name + ".weight", bias ? prefix_ + name + ".bias" : "", in, out, false,
            decoder_.deviation};
  }

  AttentionSpec Attention() const {
    const DecoderShape& d = decoder_;
    AttentionSpec attention;
    const std::int64_t query = d.heads * d.head_size, key = d.key_heads * d.head_size;
    if (d.fused) {
      attention.inputs = {Linear("self_attn.qkv_proj", d.hidden, query + 2 * key, d.input_bias)};
    } else {
      attention.inputs = {Linear("self_attn.q_proj", d.hidden, query, d.input_bias),
                          Linear("self_attn.k_proj", d.hidden, key, d.input_bias),
                          Linear("self_attn.v_proj", d.hidden, key, d.input_bias)};
    }
    attention.output = Linear("self_attn.o_proj", query, d.hidden, d.output_bias);
    attention.heads = d.heads;
    attention.key_heads = d.key_heads;
    attention.head_size = d.head_size;
    attention.scale =
        d.score_scale > 0 ? d.score_scale : 1 / std::sqrt(static_cast<double>(d.head_size));
    attention.rotary = d.rotary;
    if (d.head_norms) {
      attention.query_norm = Norm("self_attn.q_norm", d.head_size);
      attention.key_norm = Norm("self_attn.k_norm", d.head_size);
    }
    return attention;
  }

  FeedForwardSpec FeedForward() const {
    const DecoderShape& d = decoder_;
    FeedForwardSpec part;
    const bool bias = d.feed_forward_bias;
    if (d.fused) {
      part.inputs = {Linear("mlp.gate_up_proj", d.hidden, 2 * d.inner, bias)};
    } else {
      part.inputs = {Linear("mlp.gate_proj", d.hidden, d.inner, bias),
                     Linear("mlp.up_proj", d.hidden, d.inner, bias)};
    }
    part.output = Linear("mlp.down_proj", d.inner, d.hidden, bias);
    part.inner = d.inner;
    part.gated = true;
    part.activation = d.activation;
    return part;
  }

  const DecoderShape& decoder_;
  const std::string prefix_;
};

}  // namespace

DecoderShape ReadDecoder(ConfigKeys* keys, const DecoderDefaults& defaults) {
  DecoderShape decoder;
  decoder.layers = keys->Count("num_hidden_layers", kLayersMost);
  decoder.hidden = keys->Count("hidden_size", kHiddenMost);
  decoder.inner = keys->Count("intermediate_size", kInnerMost);
  decoder.vocabulary = keys->Count("vocab_size", kVocabularyMost);
  decoder.positions = keys->Count("max_position_embeddings", kPositionsMost);
  const std::uint32_t heads = keys->Count("num_attention_heads", kHeadsMost);
  decoder.heads = heads;
  decoder.key_heads = keys->Count("num_key_value_heads", kHeadsMost,
                                  defaults.key_heads > 0 ? defaults.key_heads : heads);
  const auto shared = static_cast<std::uint32_t>(decoder.hidden / heads);
  decoder.head_size =
      keys->Count("head_dim", kHeadSizeMost, defaults.head_size > 0 ? defaults.head_size : shared);
  if (decoder.head_size > kHeadSizeMost) {
    keys->Fail("heads of " + std::to_string(decoder.head_size) + " values; they have at most " +
               std::to_string(kHeadSizeMost));
  }
  if (!keys->Has("head_dim") && defaults.head_size == 0 && decoder.hidden % decoder.heads != 0) {
    keys->Fail("hidden_size " + std::to_string(decoder.hidden) +
               " is no multiple of num_attention_heads " + std::to_string(decoder.heads));
  }
  if (decoder.heads % decoder.key_heads != 0) {
    keys->Fail("num_attention_heads " + std::to_string(decoder.heads) +
               " is no multiple of num_key_value_heads " + std::to_string(decoder.key_heads));
  }
  decoder.epsilon = keys->Number("rms_norm_eps", defaults.epsilon, 0, 1);
  decoder.deviation = keys->Number("initializer_range", 0.02, 0, 1e3);
  decoder.tied = keys->Flag("tie_word_embeddings", defaults.tied);
  decoder.activation = ReadActivation(keys, defaults.activation_key, defaults.activation);
  if (!defaults.own_rotary) {
    decoder.rotary = ReadRotary(keys, {decoder.head_size, decoder.positions});
  }
  return decoder;
}

ModelSpec SpecOf(const DecoderShape& decoder) {
  ModelSpec spec;
  spec.hidden = static_cast<std::uint32_t>(decoder.hidden);
  spec.vocabulary = decoder.vocabulary;
  spec.positions = decoder.positions;
  spec.embedding.tokens = {"embed_tokens.weight", decoder.vocabulary, decoder.deviation};
  spec.embedding.scale = decoder.embedding_scale;
  for (std::uint32_t layer = 0; layer < decoder.layers; ++layer) {
    LayerSpec& built = spec.layer_specs.emplace_back(LayerBuilder(decoder, layer).Build());
    if (decoder.change) decoder.change(layer, &built.attention);
  }
  spec.head.norm = NormSpec{NormKind::kRmsNorm, "norm.weight",   "",
                            decoder.hidden,     decoder.epsilon, decoder.around_one};
  spec.head.output = {decoder.tied ? "embed_tokens.weight" : "lm_head.weight",
                      "",
                      decoder.hidden,
                      decoder.vocabulary,
                      false,
                      decoder.deviation};
  spec.files = {"model.",
                {"lm_head.weight"},
                {".rotary_emb.inv_freq"},
                "lm_head.weight",
                decoder.architecture};
  return spec;
}

std::function<bool(std::uint32_t)> ReadSlidingLayers(
    ConfigKeys* keys, std::uint32_t layers, const std::function<bool(std::uint32_t)>& otherwise) {
  const std::vector<std::string> types = keys->Texts("layer_types");
  if (types.empty()) return otherwise;
  if (types.size() != layers) {
    keys->Fail("layer_types has " + std::to_string(types.size()) + " entries for " +
               std::to_string(layers) + " layers");
    return otherwise;
  }
  std::vector<bool> sliding;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      keys->Fail("layer type " + storage::Quoted(type) +
                 " is not supported; supported are full_attention and sliding_attention");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return [sliding = std::move(sliding)](std::uint32_t layer) { return sliding[layer]; };
}

}  // namespace shoal::model
