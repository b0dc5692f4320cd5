#include "pipeline/schedule.h"

#include <algorithm>
#include <cmath>

#include "pipeline/step_simulation.h"

namespace shoal::pipeline {
namespace {

// Micro-batches of a simulated step: enough for the steady state, few enough for the control
// thread.
constexpr std::uint32_t kSimulated = 64;
// A bound is good if it costs no more than this over unlimited micro-batches in flight.
constexpr double kTolerance = 1.02;

// Measured times come from other peers: what is no sensible number counts as zero.
double Sane(double milliseconds) {
  return std::isfinite(milliseconds) && milliseconds > 0 ? milliseconds : 0;
}

std::vector<StageTimes> Sane(std::vector<StageTimes> stages) {
  for (StageTimes& stage : stages) {
    stage.forward_ms = Sane(stage.forward_ms);
    stage.backward_ms = Sane(stage.backward_ms);
    stage.send_forward_ms = Sane(stage.send_forward_ms);
    stage.send_backward_ms = Sane(stage.send_backward_ms);
  }
  if (stages.empty()) return stages;
  stages.back().send_forward_ms = 0;
  stages.front().send_backward_ms = 0;
  return stages;
}

// The simulation speaks of bytes and rates, measurements of milliseconds: one byte takes one.
constexpr double kBytePerMillisecondBps = 8e3;

// Milliseconds of a step in which each link carries one micro-batch at a time and direction.
double StepTime(const std::vector<StageTimes>& times, const std::vector<std::uint32_t>& bounds,
                std::uint32_t micro_batches) {
  std::vector<SimulatedStage> stages(times.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].forward_ms = times[s].forward_ms;
    stages[s].backward_input_ms = times[s].backward_ms;
    stages[s].forward_bytes = times[s].send_forward_ms;
    stages[s].backward_bytes = times[s].send_backward_ms;
    stages[s].egress_bps = kBytePerMillisecondBps;
    stages[s].in_flight = bounds[s];
  }
  return SimulateStep(stages, {.schedule = ScheduleKind::k1f1b,
                               .micro_batches = micro_batches,
                               .shared_egress = false,
                               .keep_spans = false})
      .step_ms;
}

// Per stage: `factor` times the round trip of a micro-batch from there to the last stage and back,
// divided by the time between two micro-batches; at least the plain S - s.
std::vector<std::uint32_t> RoundTripBounds(const std::vector<StageTimes>& stages, double factor,
                                           std::uint32_t most) {
  double period = 0;  // of the slowest stage or link, which sets the pace of all
  for (const StageTimes& stage : stages) {
    period = std::max({period, stage.forward_ms + stage.backward_ms, stage.send_forward_ms,
                       stage.send_backward_ms});
  }
  std::vector<std::uint32_t> bounds(stages.size(), 1);
  double round_trip = 0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    round_trip += stages[s].forward_ms + stages[s].backward_ms + stages[s].send_forward_ms;
    // The epsilon keeps a quotient that is whole up to rounding from becoming one more.
    const double needed = period > 0 ? std::ceil(factor * round_trip / period - 1e-9) : 0;
    const double plain = static_cast<double>(stages.size() - s);
    bounds[s] = static_cast<std::uint32_t>(
        std::clamp(needed, std::min(plain, static_cast<double>(most)), static_cast<double>(most)));
    // The last stage goes backward at once: more in flight there would only cost memory.
    if (s + 1 == stages.size()) bounds[s] = 1;
    round_trip += stages[s].send_backward_ms;
  }
  return bounds;
}

}  // namespace

bool Done(const StageProgress& progress) {
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

std::uint32_t ChooseInFlight(const std::vector<StageTimes>& measured, std::uint32_t stage,
                             std::uint32_t micro_batches, std::uint64_t memory_bytes) {
  if (stage >= measured.size()) return 1;
  const std::vector<StageTimes> stages = Sane(measured);
  const std::uint32_t most = std::max(micro_batches, 1u);
  const std::uint32_t simulated = std::min(most, kSimulated);
  const double unlimited =
      StepTime(stages, std::vector<std::uint32_t>(stages.size(), simulated), simulated);
  std::uint32_t chosen = most;
  for (const double factor : {1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0}) {
    const std::vector<std::uint32_t> bounds = RoundTripBounds(stages, factor, most);
    if (StepTime(stages, bounds, simulated) > kTolerance * unlimited) continue;
    chosen = bounds[stage];
    break;
  }
  const std::uint64_t each = measured[stage].micro_batch_bytes;
  if (memory_bytes > 0 && each > 0) {
    chosen = static_cast<std::uint32_t>(std::min<std::uint64_t>(chosen, memory_bytes / each));
  }
  return std::max(chosen, 1u);
}

}  // namespace shoal::pipeline
