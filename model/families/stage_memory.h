// What micro-batches cost a stage in memory. Pure. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_STAGE_MEMORY_H_
#define SHOAL_MODEL_FAMILIES_STAGE_MEMORY_H_

#include <cstdint>

#include "model/families/model_spec.h"

namespace shoal::model {

// Gradients of logits are kept from the forward for the backward up to this many bytes.
inline constexpr std::uint64_t kKeptLogitBytes = std::uint64_t{256} << 20;

struct MicroBatchShape {
  std::uint32_t rows = 0, tokens = 0;
};

// How a stage of layers [first_layer, last_layer) computes.
struct StageShape {
  std::uint32_t first_layer = 0, last_layer = 0;
  bool bf16 = false;
  bool dropout = false;
  bool recompute = false;
};

// Whether the head keeps its logits' gradients from the forward.
bool KeepsLogits(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape);
// Upper bound of what a micro-batch keeps, in bytes.
std::uint64_t KeptBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape);
// Likewise, between the halves of the backward.
std::uint64_t PendingBytes(const ModelSpec& spec, const StageShape& stage, MicroBatchShape shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_STAGE_MEMORY_H_
