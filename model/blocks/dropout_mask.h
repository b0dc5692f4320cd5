// Dropout masks as tensors. A mask depends on run seed, sample, layer and site only (dropout.h).

#ifndef SHOAL_MODEL_BLOCKS_DROPOUT_MASK_H_
#define SHOAL_MODEL_BLOCKS_DROPOUT_MASK_H_

#include "model/blocks/dropout.h"
#include "model/blocks/parameter.h"

namespace shoal::model {

// Of a dropout site as bool [rows, per_sample] on `like`'s device: true is kept. Undefined without
// dropout.
at::Tensor DropoutMask(const BatchContext& context, std::uint32_t layer, DropoutSite site,
                       std::int64_t per_sample, const at::Tensor& like);
// The same where dropout is not the run's.
struct MaskPlace {
  std::uint32_t layer = 0;
  DropoutSite site = DropoutSite::kEmbedding;
  double probability = 0;
};
at::Tensor DropoutMask(const BatchContext& context, const MaskPlace& place, std::int64_t per_sample,
                       const at::Tensor& like);
// Eight values to a byte, the first one in the lowest bit: a mask that is kept for the backward
// costs little beside what it drops. uint8 [rows, bytes of a row] on the host; undefined without
// dropout.
at::Tensor PackedMask(const BatchContext& context, const MaskPlace& place, std::int64_t per_sample);
// ApplyDropout with the mask that `packed` stands for.
at::Tensor ApplyPacked(const at::Tensor& x, const at::Tensor& packed, double probability);
// A part of the mask of attention scores, whose whole is [heads, tokens, tokens] a row: of queries
// [first, first + queries) and keys [first_key, first_key + keys) of the context's tokens, as bool
// [rows, heads, queries, keys].
struct ScoreWindow {
  std::int64_t first = 0, queries = 0, first_key = 0, keys = 0;
};
at::Tensor ScoreMask(const BatchContext& context, std::uint32_t layer, std::int64_t heads,
                     const ScoreWindow& window, const at::Tensor& like);
// `x` (any shape of as many values) where kept, scaled by 1 / (1 - probability); and, because the
// operation is linear, also its own backward. Undefined mask: `x`.
at::Tensor ApplyDropout(const at::Tensor& x, const at::Tensor& mask, double probability);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_DROPOUT_MASK_H_
