#include "pipeline/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

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

// One step of a pipeline in virtual time. A link carries one micro-batch at a time and direction.
class StepSimulation {
 public:
  StepSimulation(const std::vector<StageTimes>& times, const std::vector<std::uint32_t>& bounds,
                 std::uint32_t micro_batches)
      : times_(times), stages_(times.size()) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].progress.micro_batches = micro_batches;
      stages_[s].progress.in_flight = bounds[s];
    }
    stages_.front().progress.inputs_ready = micro_batches;
  }

  double Run() {
    Pump(0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.when;
      Stage& stage = stages_[event.stage];
      if (event.kind == Kind::kInput) ++stage.progress.inputs_ready;
      if (event.kind == Kind::kGradient) ++stage.progress.gradients_ready;
      if (event.kind == Kind::kOperation) Finish(event.stage);
      Pump(event.stage);
    }
    return now_;
  }

 private:
  enum class Kind { kOperation, kInput, kGradient };
  struct Event {
    double when;
    Kind kind;
    std::size_t stage;
    bool operator>(const Event& other) const { return when > other.when; }
  };
  struct Stage {
    StageProgress progress;
    std::optional<Op> running;
    double forward_free = 0, backward_free = 0;  // when its links are
  };

  void Pump(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.running) return;
    stage.running = NextOp1f1b(stage.progress);
    if (!stage.running) return;
    double cost = 0;
    switch (stage.running->kind) {
      case OpKind::kForward:
        ++stage.progress.forwards;
        cost = times_[s].forward_ms;
        break;
      case OpKind::kBackwardInput:  // both halves at once: nothing can come between them
        ++stage.progress.backwards;
        ++stage.progress.weight_backwards;
        cost = times_[s].backward_ms;
        break;
      case OpKind::kBackwardWeights: break;
    }
    events_.push({now_ + cost, Kind::kOperation, s});
  }

  void Finish(std::size_t s) {
    Stage& stage = stages_[s];
    const bool forward = stage.running->kind == OpKind::kForward;
    stage.running.reset();
    if (forward && s + 1 == stages_.size()) {
      ++stage.progress.gradients_ready;
    } else if (forward) {
      stage.forward_free = std::max(stage.forward_free, now_) + times_[s].send_forward_ms;
      events_.push({stage.forward_free, Kind::kInput, s + 1});
    } else if (s > 0) {
      stage.backward_free = std::max(stage.backward_free, now_) + times_[s].send_backward_ms;
      events_.push({stage.backward_free, Kind::kGradient, s - 1});
    }
  }

  const std::vector<StageTimes>& times_;
  std::vector<Stage> stages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
};

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

std::optional<Op> NextOp1f1b(const StageProgress& progress) {
  if (progress.weight_backwards < progress.backwards) {
    return Op{OpKind::kBackwardWeights, progress.weight_backwards};
  }
  if (progress.backwards < std::min(progress.forwards, progress.gradients_ready)) {
    return Op{OpKind::kBackwardInput, progress.backwards};
  }
  if (progress.forwards < std::min(progress.micro_batches, progress.inputs_ready) &&
      progress.forwards - progress.backwards < std::max(progress.in_flight, 1u)) {
    return Op{OpKind::kForward, progress.forwards};
  }
  return std::nullopt;
}

std::uint32_t ChooseInFlight(const std::vector<StageTimes>& measured, std::uint32_t stage,
                             std::uint32_t micro_batches, std::uint64_t memory_bytes) {
  if (stage >= measured.size()) return 1;
  const std::vector<StageTimes> stages = Sane(measured);
  const std::uint32_t most = std::max(micro_batches, 1u);
  const std::uint32_t simulated = std::min(most, kSimulated);
  const double unlimited =
      StepSimulation(stages, std::vector<std::uint32_t>(stages.size(), simulated), simulated).Run();
  std::uint32_t chosen = most;
  for (const double factor : {1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0}) {
    const std::vector<std::uint32_t> bounds = RoundTripBounds(stages, factor, most);
    if (StepSimulation(stages, bounds, simulated).Run() > kTolerance * unlimited) continue;
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
