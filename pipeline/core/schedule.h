// Schedule: which operation a stage does next. Pure.
//
// Three operations per micro-batch: F (forward), B (gradient of the input) and W (gradients of the
// weights). `in_flight` bounds the micro-batches whose forward is done and whose backward is not.
// The plain schedule (PipeDream-flush) has S - s at stage s. Slow links need more, since S - s
// starves there (Little's law). F, B and W are each done in micro-batch order, so that sums run in
// a fixed order: every schedule gives the same bits.

#ifndef SHOAL_PIPELINE_CORE_SCHEDULE_H_
#define SHOAL_PIPELINE_CORE_SCHEDULE_H_

#include <cstdint>
#include <optional>

namespace shoal::pipeline {

enum class OpKind : std::uint8_t { kForward, kBackwardInput, kBackwardWeights };

enum class ScheduleKind : std::uint8_t {
  k1f1b,        // W right after its B: the least memory
  kZeroBubble,  // W when the stage would idle (docs/algorithms/schedules.md)
};

struct Op {
  OpKind kind = OpKind::kForward;
  std::uint32_t micro_batch = 0;
  bool operator==(const Op&) const = default;
};

// What a stage has done and could do in the running step.
struct StageProgress {
  std::uint32_t micro_batches = 0;     // of the step
  std::uint32_t forwards = 0;          // done or running
  std::uint32_t backwards = 0;         // B done or running
  std::uint32_t weight_backwards = 0;  // W done, all parts of it
  std::uint32_t inputs_ready = 0;      // prefix of micro-batches whose input has arrived
  std::uint32_t gradients_ready = 0;   // prefix whose output gradient has arrived
  std::uint32_t in_flight = 1;         // bound on forwards - backwards; 0 is 1
  // Bound on backwards - weight_backwards; 0 is 1, as is anything in 1F1B.
  std::uint32_t pending_weights_max = 1;
};

// Whether the step needs no further operation.
bool AllDone(const StageProgress& progress);
// Whether the in-flight bound allows a forward that the step still needs.
bool HasRoom(const StageProgress& progress);
// Counts an operation: F and B when they start, W when its last part is done.
void Count(OpKind kind, StageProgress* progress);

// The next operation, or nothing if the stage must wait. B before F when both can run: a stage
// upstream waits for the gradient. Zero-bubble: W when neither can run, and before a B that the
// bound on pending W does not allow.
std::optional<Op> NextOp(ScheduleKind kind, const StageProgress& progress);

// "1f1b" or "zero-bubble".
const char* ScheduleName(ScheduleKind kind);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_SCHEDULE_H_
