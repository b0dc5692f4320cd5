// StepSimulation: how long a training step takes, from compute times, message sizes and rates
// alone.
//
// Discrete events in virtual time. Each stage runs one operation at a time, in the order of
// NextOp(). Each stage's egress carries one message at a time, gradients before activations,
// because a waiting backward is due earlier than a waiting forward. A stage that is idle takes all
// arrivals of an instant before it chooses its next operation. Pure; any thread.

#ifndef SHOAL_PIPELINE_CORE_STEP_SIMULATION_H_
#define SHOAL_PIPELINE_CORE_STEP_SIMULATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/core/schedule.h"

namespace shoal::pipeline {

// One stage and its egress. Numbers that are negative or not finite count as 0.
struct SimulatedStage {
  double forward_ms = 0;  // per micro-batch, as all of these
  // Until the gradient of the input can leave. An ordinary, unsplit backward is all of it here and
  // nothing in backward_weights_ms.
  double backward_input_ms = 0;
  double backward_weights_ms = 0;
  std::uint32_t weight_parts = 1;  // in which W runs: between two something else can; 0 is 1
  double forward_bytes = 0;        // of a message to the next stage; unused on the last stage
  double backward_bytes = 0;       // to the previous stage; unused on the first
  double egress_bps = 0;           // bits per second; 0: unlimited
  double latency_ms = 0;           // from a message's last bit leaving to its being there, decoded
  double forward_latency_ms = 0;   // beside that, of messages to the next stage
  std::uint32_t in_flight = 0;     // bound as in StageProgress; 0: none
  std::uint32_t pending_weights_max = 0;  // likewise
};

struct SimulationOptions {
  ScheduleKind schedule = ScheduleKind::kZeroBubble;
  std::uint32_t micro_batches = 0;
  // Whether both directions share the stage's egress; otherwise each neighbour has a link of its
  // own with the full rate.
  bool shared_egress = true;
  bool keep_spans = true;
};

enum class SpanKind : std::uint8_t {
  kForward,
  kBackwardInput,
  kBackwardWeights,
  kActivation,  // on the egress, first to last bit
  kGradient,
};

// Something that took time, at the stage that computed or sent.
struct SimulatedSpan {
  SpanKind kind = SpanKind::kForward;
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;
  double begin_ms = 0, end_ms = 0;  // since the step's start
};

struct SimulatedStageTimes {
  double busy_ms = 0;
  // Idle with work left, by what it lacks first: a next input that it has room for, or a gradient.
  double wait_input_ms = 0, wait_gradient_ms = 0;
  double link_busy_ms = 0;  // of both links where the egress is not shared
  double done_ms = 0;       // end of its last operation
  std::uint32_t in_flight_most = 0, pending_weights_most = 0;
};

struct SimulatedStep {
  double step_ms = 0;
  std::vector<SimulatedStageTimes> stages;
  std::vector<SimulatedSpan> spans;  // by end
};

// Times are rounded to nanoseconds. Time and memory O(stages x micro-batches).
SimulatedStep SimulateStep(std::span<const SimulatedStage> stages,
                           const SimulationOptions& options);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_STEP_SIMULATION_H_
