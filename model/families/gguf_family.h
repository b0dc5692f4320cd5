// What llama.cpp makes of a family: the name of its architecture, and what that computes. A family
// keeps its table in its own file. Plain values. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_GGUF_FAMILY_H_
#define SHOAL_MODEL_FAMILIES_GGUF_FAMILY_H_

#include <cstdint>
#include <string_view>

#include "model/families/model_spec.h"

namespace shoal::model {

struct GgufFamily {
  std::string_view architecture;  // "general.architecture", and before keys of the model
  Activation activation = Activation::kSilu;
  // Rotary pairs are values 2i and 2i + 1 of a head instead of i and i + pairs: rows of query and
  // key are stored in that order.
  bool adjacent_pairs = false;
  bool rotary_factors = false;  // takes a table of factors (Llama 3's scaling)
  bool partial_rotary = false;  // positions may turn a part of a head
  bool narrow_heads = false;    // heads together may be narrower or wider than the model
  bool output_bias = false;     // of attention
  bool feed_forward_bias = false;
  bool shared_head = false;  // has no head of its own
  // Windows in all layers but each n-th, counted from 1; 0: it has no windows.
  std::uint32_t whole_layer_every = 0;
  bool score_cap = false;               // always caps scores and logits
  bool plain_window_positions = false;  // rotary scaling is of whole layers only
  // With so many layers scores are divided by sqrt(hidden / heads); 0: never.
  std::uint32_t wide_scale_layers = 0;
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_GGUF_FAMILY_H_
