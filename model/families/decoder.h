// Decoder: what the families after Llama have in common: RMS norms before each part, rotary
// positions, grouped heads, a gated feed-forward part. Internal to model/families. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_DECODER_H_
#define SHOAL_MODEL_FAMILIES_DECODER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "model/families/config_keys.h"
#include "model/families/model_spec.h"

namespace shoal::model {

struct DecoderShape {
  std::uint32_t layers = 1, vocabulary = 1, positions = 1;
  std::int64_t hidden = 1, inner = 1, heads = 1, key_heads = 1, head_size = 1;
  double epsilon = 1e-6, deviation = 0.02;
  bool tied = false;
  Activation activation = Activation::kSilu;
  RotarySpec rotary;
  // What a family sets itself.
  bool input_bias = false, output_bias = false, feed_forward_bias = false;
  bool head_norms = false;    // on each head's query and key
  bool around_one = false;    // all norms
  bool norms_behind = false;  // a norm before each part and one behind it
  bool fused = false;         // query, key and value in one product, gate and value in another
  double score_scale = 0;     // 0: 1 / sqrt(head_size)
  double embedding_scale = 1;
  std::string architecture;
  // Last word on a layer's attention: windows, other rotary positions.
  std::function<void(std::uint32_t layer, AttentionSpec* attention)> change;
};

// Reads sizes, epsilon, activation and, unless `own_rotary`, rotary positions.
struct DecoderDefaults {
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  double epsilon = 1e-6;
  bool tied = false;
  bool own_rotary = false;
  std::uint32_t head_size = 0;  // 0: hidden / heads
  std::uint32_t key_heads = 0;  // 0: as many as heads
};
DecoderShape ReadDecoder(ConfigKeys* keys, const DecoderDefaults& defaults);

ModelSpec SpecOf(const DecoderShape& decoder);

// Which layers see `sliding_window` tokens only. `layer_types` has the say if it is there, else
// `otherwise`. All layers see all tokens if there is no window.
std::function<bool(std::uint32_t layer)> ReadSlidingLayers(
    ConfigKeys* keys, std::uint32_t layers, const std::function<bool(std::uint32_t)>& otherwise);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_DECODER_H_
