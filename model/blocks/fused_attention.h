// Attention by LibTorch's operators on CUDA: whole rows, or all segments of all rows at once.

#ifndef SHOAL_MODEL_BLOCKS_FUSED_ATTENTION_H_
#define SHOAL_MODEL_BLOCKS_FUSED_ATTENTION_H_

#include <optional>

#include "model/blocks/parameter.h"
#include "model/families/model_spec.h"

namespace shoal::model {

enum class FusedOperator {
  kFlash,      // of half precision; heads may share keys, and see a window
  kEfficient,  // of any precision; every head has keys of its own
};

// Nothing where none of them can: on the CPU, with dropout, a cap, odd sizes of heads.
std::optional<FusedOperator> ChooseFused(const AttentionSpec& spec, const BatchContext& context,
                                         const at::Tensor& query);

struct FusedInputs {
  at::Tensor query, key, value;  // [rows, heads, tokens, size]
};

// As the operators lay them out, which want them back.
struct FusedKept {
  at::Tensor output, log_sums, seed, offset;
};

// The result is shaped as the query, and zero at padding.
at::Tensor FusedForward(const AttentionSpec& spec, const BatchContext& context, FusedOperator by,
                        const FusedInputs& inputs, FusedKept* kept);
// Gradients of the inputs, shaped as they are, from that of the result.
FusedInputs FusedBackward(const AttentionSpec& spec, const BatchContext& context, FusedOperator by,
                          const FusedInputs& inputs, const at::Tensor& gradient,
                          const FusedKept& kept);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_FUSED_ATTENTION_H_
