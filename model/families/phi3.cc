// Phi-3 and Phi-4-mini (Abdin et al., 2024): Llama with fused products.

#include "model/families/decoder.h"
#include "model/families/families.h"

namespace shoal::model {

const GgufFamily kPhi3Gguf = {.architecture = "phi3", .partial_rotary = true};

ModelSpec DescribePhi3(ConfigKeys* keys) {
  DecoderShape decoder = ReadDecoder(keys, {.epsilon = 1e-5});
  decoder.fused = true;
  decoder.input_bias = decoder.output_bias = keys->Flag("attention_bias", false);
  decoder.architecture = "Phi3ForCausalLM";
  const std::int64_t window =
      keys->Has("sliding_window") ? keys->Count("sliding_window", kPositionsMost) : 0;
  decoder.change = [window](std::uint32_t, AttentionSpec* attention) {
    attention->window = window;
  };
  // Where long rotary factors take over, which is refused by their name.
  keys->Ignore({"original_max_position_embeddings"});
  return SpecOf(decoder);
}

}  // namespace shoal::model
