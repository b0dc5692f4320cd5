#include "pipeline/core/schedule.h"

#include <algorithm>

namespace shoal::pipeline {

const char* ScheduleName(ScheduleKind kind) {
  return kind == ScheduleKind::k1f1b ? "1f1b" : "zero-bubble";
}

bool AllDone(const StageProgress& progress) {
  return progress.weight_backwards >= progress.micro_batches;
}

bool HasRoom(const StageProgress& progress) {
  return progress.forwards < progress.micro_batches &&
         progress.forwards - progress.backwards < std::max(progress.in_flight, 1u);
}

void Count(OpKind kind, StageProgress* progress) {
  switch (kind) {
    case OpKind::kForward: ++progress->forwards; return;
    case OpKind::kBackwardInput: ++progress->backwards; return;
    case OpKind::kBackwardWeights: ++progress->weight_backwards; return;
  }
}

std::optional<Op> NextOp(ScheduleKind kind, const StageProgress& progress) {
  const std::uint32_t pending = progress.backwards - progress.weight_backwards;
  const std::uint32_t pending_max =
      kind == ScheduleKind::k1f1b ? 1 : std::max(progress.pending_weights_max, 1u);
  const bool backward = progress.backwards < std::min(progress.forwards, progress.gradients_ready);
  const Op weights{OpKind::kBackwardWeights, progress.weight_backwards};
  if (pending > 0 && kind == ScheduleKind::k1f1b) return weights;
  if (backward && pending >= pending_max) return weights;
  if (backward) return Op{OpKind::kBackwardInput, progress.backwards};
  if (HasRoom(progress) && progress.forwards < progress.inputs_ready) {
    return Op{OpKind::kForward, progress.forwards};
  }
  if (pending > 0) return weights;
  return std::nullopt;
}

}  // namespace shoal::pipeline
