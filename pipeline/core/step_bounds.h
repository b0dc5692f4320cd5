// StepBounds: schedule, micro-batches in flight and pending weight gradients of a step, from
// measured times and within a bound on memory. Pure; any thread.

#ifndef SHOAL_PIPELINE_CORE_STEP_BOUNDS_H_
#define SHOAL_PIPELINE_CORE_STEP_BOUNDS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "pipeline/core/schedule.h"

namespace shoal::pipeline {

enum class SchedulePolicy : std::uint8_t {
  kAuto,  // zero-bubble where memory allows it and it is not slower, else 1F1B
  k1f1b,
  kZeroBubble,
};
// "auto" (or nothing), "1f1b" or "zero-bubble"; anything else is an invalid argument.
Result<SchedulePolicy> ParseSchedulePolicy(std::string_view text);

// Measured times of one stage, milliseconds per micro-batch; bytes of memory per micro-batch.
struct StageTimes {
  double forward_ms = 0;
  double backward_input_ms = 0;    // until the gradient of the input is there
  double backward_weights_ms = 0;  // after that
  double send_forward_ms = 0;      // that the line to the next stage is busy
  double send_backward_ms = 0;     // to the previous stage
  // From an output to its gradient, both outside of codec and network. It is of the first
  // micro-batch of a step, which meets no queue. 0: not measured, or the last stage.
  double round_trip_ms = 0;
  std::uint64_t micro_batch_bytes = 0;      // of a micro-batch in flight
  std::uint64_t pending_weights_bytes = 0;  // of one whose W is pending; 0: as in flight

  bool operator==(const StageTimes&) const = default;
};

struct StepBounds {
  ScheduleKind schedule = ScheduleKind::k1f1b;
  std::uint32_t in_flight = 1;
  std::uint32_t pending_weights_max = 1;
  // Of a step of up to 64 micro-batches, and with unlimited memory everywhere; 0: nothing measured.
  double simulated_ms = 0, unlimited_ms = 0;
  std::uint64_t memory_bytes = 0;  // at this stage while both bounds are reached; 0: not known
};

struct BoundsRequest {
  std::uint32_t stage = 0;
  std::uint32_t micro_batches = 0;
  SchedulePolicy policy = SchedulePolicy::kAuto;
  std::uint32_t in_flight_max = 0;  // 0: from the times; else taken as it is
  StepBounds previous = {};         // of the step before
  std::uint64_t memory_bytes = 0;   // for micro-batches in flight and pending together; 0: any
};

// Bounds at `request.stage`. In flight follows from Little's law: a micro-batch's round trip from
// the stage to the last one and back, over the time between two micro-batches in the steady state.
// At least the plain S - stage. One factor for all stages grows it until a simulated step is within
// 1 % of one with unlimited bounds, whether the directions share their line or not. Pending: as
// many as that step had, at least stages + stage. Times vary, and too few cost more than too many.
// So in flight is doubled and at least twice the plain bound, pending gets a quarter more, and
// neither falls by more than an eighth below `previous`. Bounds that exceed memory_bytes are cut to
// the simulated best that fits; one micro-batch always fits. A time that is not finite or is
// negative counts as 0. Takes milliseconds: some tens of simulated steps of O(stages x
// micro-batches), at most 64 of these.
StepBounds ChooseBounds(const std::vector<StageTimes>& stages, const BoundsRequest& request);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_STEP_BOUNDS_H_
