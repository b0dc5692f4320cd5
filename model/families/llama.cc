// Llama 2 and 3 (Touvron et al., 2023; Grattafiori et al., 2024), and what is built like them.

#include "model/families/decoder.h"
#include "model/families/families.h"

namespace shoal::model {

const GgufFamily kLlamaGguf = {.architecture = "llama",
                               .adjacent_pairs = true,
                               .rotary_factors = true,
                               .narrow_heads = true,
                               .output_bias = true,
                               .feed_forward_bias = true};

ModelSpec DescribeLlama(ConfigKeys* keys) {
  DecoderShape decoder = ReadDecoder(keys, {});
  decoder.input_bias = decoder.output_bias = keys->Flag("attention_bias", false);
  decoder.feed_forward_bias = keys->Flag("mlp_bias", false);
  // Above 1 the products are made in pieces, which computes the same.
  keys->Ignore({"pretraining_tp"});
  decoder.architecture = "LlamaForCausalLM";
  return SpecOf(decoder);
}

}  // namespace shoal::model
