// What micro-batches cost a stage in memory. Internal to model/. Pure. Thread: any.

#ifndef SHOAL_MODEL_STAGE_MEMORY_H_
#define SHOAL_MODEL_STAGE_MEMORY_H_

#include <cstdint>

#include "model/families/model_spec.h"
#include "model/stage_model.h"

namespace shoal::model {

struct MicroBatchShape {
  std::uint32_t rows = 0, tokens = 0;
};

// Whether the head keeps its logits' gradients from the forward.
bool KeepsLogits(const ModelSpec& spec, const StageOptions& options, MicroBatchShape shape);
// Upper bound of what a micro-batch keeps, in bytes.
std::uint64_t KeptBytes(const ModelSpec& spec, const StageOptions& options, MicroBatchShape shape);
// Likewise, between the halves of the backward.
std::uint64_t PendingBytes(const ModelSpec& spec, const StageOptions& options,
                           MicroBatchShape shape);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_STAGE_MEMORY_H_
