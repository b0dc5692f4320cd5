// Mistral 7B (Jiang et al., 2023): Llama with a sliding window in all layers.

#include "model/families/decoder.h"
#include "model/families/families.h"

namespace shoal::model {

// llama.cpp takes it for a Llama.
const GgufFamily kMistralGguf = {
    .architecture = "llama", .adjacent_pairs = true, .rotary_factors = true, .narrow_heads = true};

ModelSpec DescribeMistral(ConfigKeys* keys) {
  DecoderShape decoder = ReadDecoder(keys, {.key_heads = 8});
  decoder.architecture = "MistralForCausalLM";
  const std::int64_t window =
      keys->IsNull("sliding_window") ? 0 : keys->Count("sliding_window", kPositionsMost, 4096);
  decoder.change = [window](std::uint32_t, AttentionSpec* attention) {
    attention->window = window;
  };
  return SpecOf(decoder);
}

}  // namespace shoal::model
