// What the files of the families share, and their entries. Internal to model/families. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_FAMILIES_H_
#define SHOAL_MODEL_FAMILIES_FAMILIES_H_

#include <cstdint>

#include "model/families/config_keys.h"
#include "model/families/gguf_family.h"
#include "model/families/model_spec.h"

namespace shoal::model {

// What a number of config.json may be at most; the product of all is limited in ParseModelSpec.
inline constexpr std::uint32_t kLayersMost = 4096, kHeadsMost = 1U << 16, kHeadSizeMost = 1024;
inline constexpr std::uint32_t kHiddenMost = 1U << 20, kInnerMost = 1U << 22;
inline constexpr std::uint32_t kVocabularyMost = 1U << 28, kPositionsMost = 1U << 28;

// By the names that transformers gives activations.
Activation ReadActivation(ConfigKeys* keys, const char* key, const char* otherwise);

ModelSpec DescribeBert(ConfigKeys* keys);
ModelSpec DescribeDeberta(ConfigKeys* keys);
ModelSpec DescribeRoberta(ConfigKeys* keys);
ModelSpec DescribeGpt2(ConfigKeys* keys);
ModelSpec DescribeLlama(ConfigKeys* keys);
ModelSpec DescribeMistral(ConfigKeys* keys);
ModelSpec DescribeQwen2(ConfigKeys* keys);
ModelSpec DescribeQwen3(ConfigKeys* keys);
ModelSpec DescribeGemma2(ConfigKeys* keys);
ModelSpec DescribeGemma3(ConfigKeys* keys);
ModelSpec DescribePhi3(ConfigKeys* keys);

extern const GgufFamily kGpt2Gguf, kLlamaGguf, kMistralGguf, kQwen2Gguf, kQwen3Gguf, kGemma2Gguf,
    kGemma3Gguf, kPhi3Gguf;

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_FAMILIES_H_
