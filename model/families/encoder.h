// Encoder: what the families after BERT have in common: a layer norm behind each part, attention
// in both directions, a classifier over each row's first token. Internal to model/families. Thread:
// any.

#ifndef SHOAL_MODEL_FAMILIES_ENCODER_H_
#define SHOAL_MODEL_FAMILIES_ENCODER_H_

#include <array>
#include <cstdint>
#include <string>

#include "model/families/config_keys.h"
#include "model/families/model_spec.h"

namespace shoal::model {

inline constexpr std::uint32_t kTokenTypesMost = 1U << 16;

struct Encoder {
  std::uint32_t layers = 1, vocabulary = 1, positions = 1;
  std::int64_t hidden = 1, inner = 1, heads = 1;
  double epsilon = 1e-12, deviation = 0.02;
  Activation activation = Activation::kGelu;

  // Reads the keys of these; failures stay in `keys`. `epsilon`: what the family has without one.
  static Encoder Read(ConfigKeys* keys, double epsilon);

  LinearSpec Linear(const std::string& name, std::int64_t in, std::int64_t out) const;
  NormSpec Norm(const std::string& name) const;
  // How names of a layer's tensors begin.
  static std::string LayerPrefix(std::uint32_t layer);
  // With the names of the products of query, key and value.
  LayerSpec Layer(std::uint32_t layer, const std::array<const char*, 3>& products) const;
};

// Classes of a classifier, 2 at least: `id2label` names them, `num_labels` counts them; a file may
// have one or both.
std::uint32_t ReadClasses(ConfigKeys* keys);
// A failure unless each row has one class.
void RequireOneClassARow(ConfigKeys* keys);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_ENCODER_H_
