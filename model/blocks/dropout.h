// Dropout masks by counter: a mask depends on run seed, sample, layer and site only.
//
// So the same sample gets the same mask in any micro-batch, on any stage cut, and again when the
// forward is recomputed. Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011): key = seed, counter = (sample low, sample high, layer and site, block).
// Pure; thread: any.

#ifndef SHOAL_MODEL_BLOCKS_DROPOUT_H_
#define SHOAL_MODEL_BLOCKS_DROPOUT_H_

#include <cstdint>
#include <span>

#include "common/ids.h"

namespace shoal::model {

enum class DropoutSite : std::uint32_t {
  kEmbedding = 0,
  kAttention = 1,        // on the attention probabilities
  kAttentionOutput = 2,  // before the residual sum
  kMlpOutput = 3,
  kPooler = 4,      // before a classifier's dense product
  kClassifier = 5,  // behind it
  kAdapters = 16,   // and those that follow: before the adapter of a layer's first product, ...
};

// `place`: of the product among those of its layer.
constexpr DropoutSite AdapterSite(std::uint32_t place) {
  return static_cast<DropoutSite>(static_cast<std::uint32_t>(DropoutSite::kAdapters) + place);
}

struct DropoutKey {
  std::uint64_t seed = 0;
  SampleId sample;
  std::uint32_t layer = 0;  // 0 at the embedding and the head
  DropoutSite site = DropoutSite::kEmbedding;
};

// Writes 1 where a value is kept and 0 where it is dropped, of values first, first + 1, ...
// `probability` of a drop is in [0, 1). Value i depends on (key, i) alone; i is below 2^34.
void FillDropoutMask(const DropoutKey& key, double probability, std::uint64_t first,
                     std::span<std::uint8_t> keep);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_DROPOUT_H_
