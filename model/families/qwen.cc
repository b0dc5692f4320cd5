// Qwen2 and Qwen2.5 (Yang et al., 2024), Qwen3 (Yang et al., 2025): Llama with biases on query, key
// and value, or norms on each head's query and key; a window in the upper layers if asked for.

#include "model/families/decoder.h"
#include "model/families/families.h"

namespace shoal::model {
namespace {

void ReadWindows(ConfigKeys* keys, DecoderShape* decoder) {
  const bool used = keys->Flag("use_sliding_window", false) && !keys->IsNull("sliding_window");
  const std::uint32_t window = keys->Count("sliding_window", kPositionsMost, 4096);
  const std::uint32_t whole = keys->Count("max_window_layers", kLayersMost, 28);
  const auto sliding = ReadSlidingLayers(
      keys, decoder->layers, [used, whole](std::uint32_t layer) { return used && layer >= whole; });
  decoder->change = [used, window, sliding](std::uint32_t layer, AttentionSpec* attention) {
    attention->window = used && sliding(layer) ? window : 0;
  };
}

}  // namespace

const GgufFamily kQwen2Gguf = {.architecture = "qwen2"};
const GgufFamily kQwen3Gguf = {.architecture = "qwen3", .narrow_heads = true};

ModelSpec DescribeQwen2(ConfigKeys* keys) {
  DecoderShape decoder = ReadDecoder(keys, {});
  decoder.input_bias = true;
  decoder.architecture = "Qwen2ForCausalLM";
  ReadWindows(keys, &decoder);
  return SpecOf(decoder);
}

ModelSpec DescribeQwen3(ConfigKeys* keys) {
  DecoderShape decoder = ReadDecoder(keys, {.head_size = 128});
  decoder.input_bias = decoder.output_bias = keys->Flag("attention_bias", false);
  decoder.head_norms = true;
  decoder.architecture = "Qwen3ForCausalLM";
  ReadWindows(keys, &decoder);
  return SpecOf(decoder);
}

}  // namespace shoal::model
