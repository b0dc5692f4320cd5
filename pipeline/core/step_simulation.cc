#include "pipeline/core/step_simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <queue>

namespace shoal::pipeline {
namespace {

// Whole nanoseconds in a double: sums are exact, so what happens at once is seen to happen at once.
using Nanoseconds = double;
constexpr double kPerMillisecond = 1e6;

double Sane(double value) { return std::isfinite(value) && value > 0 ? value : 0; }
Nanoseconds FromMs(double ms) { return std::round(Sane(ms) * kPerMillisecond); }

std::uint32_t Bound(std::uint32_t bound) {
  return bound > 0 ? bound : std::numeric_limits<std::uint32_t>::max();
}

struct Costs {
  Nanoseconds operation[3];                          // by OpKind
  Nanoseconds activation, gradient;                  // on the egress
  Nanoseconds activation_latency, gradient_latency;  // after it
};

Costs CostsOf(const SimulatedStage& stage) {
  const double bps = Sane(stage.egress_bps);
  const auto transfer = [bps](double bytes) {
    return bps > 0 ? FromMs(Sane(bytes) * 8e3 / bps) : Nanoseconds{0};
  };
  return {{FromMs(stage.forward_ms), FromMs(stage.backward_input_ms),
           FromMs(stage.backward_weights_ms)},
          transfer(stage.forward_bytes),
          transfer(stage.backward_bytes),
          FromMs(stage.latency_ms) + FromMs(stage.forward_latency_ms),
          FromMs(stage.latency_ms)};
}

class Simulation {
 public:
  Simulation(std::span<const SimulatedStage> stages, const SimulationOptions& options)
      : options_(options), stages_(stages.size()) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      stages_[s].costs = CostsOf(stages[s]);
      stages_[s].weight_parts = std::max(stages[s].weight_parts, 1u);
      stages_[s].progress.micro_batches = options.micro_batches;
      stages_[s].progress.in_flight = Bound(stages[s].in_flight);
      stages_[s].progress.pending_weights_max = Bound(stages[s].pending_weights_max);
    }
    if (!stages_.empty()) stages_.front().progress.inputs_ready = options.micro_batches;
  }

  SimulatedStep Run() {
    for (std::size_t s = 0; s < stages_.size(); ++s) Pump(s);
    while (!events_.empty()) {
      now_ = events_.top().when;
      touched_.clear();
      // Messages that take no time arrive at the instant they are sent.
      while (!events_.empty() && events_.top().when <= now_) {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
        if (events_.empty() || events_.top().when > now_) SendWhatIsFree();
      }
      for (const std::size_t s : touched_) Pump(s);
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      result_.stages.push_back(stages_[s].times);
      result_.step_ms = std::max(result_.step_ms, stages_[s].times.done_ms);
    }
    return std::move(result_);
  }

 private:
  enum class Kind { kOperation, kActivationLeft, kGradientLeft, kInput, kGradient };
  struct Event {
    Nanoseconds when;
    Kind kind;
    std::size_t stage;
    bool operator>(const Event& other) const { return when > other.when; }
  };
  // Messages of one direction go in micro-batch order: two counts are the queue.
  struct Direction {
    std::uint32_t queued = 0, sent = 0;
    bool sending = false;
  };
  enum class Wait { kNothing, kInput, kGradient };
  struct Stage {
    Costs costs{};
    StageProgress progress;
    std::uint32_t weight_parts = 1, weight_parts_done = 0;  // of the first W that is not done
    std::optional<Op> running;
    Direction activations, gradients;
    Wait wait = Wait::kNothing;
    Nanoseconds wait_since = 0;
    SimulatedStageTimes times;
  };

  void Handle(const Event& event) {
    touched_.push_back(event.stage);
    Stage& stage = stages_[event.stage];
    switch (event.kind) {
      case Kind::kOperation: return Finish(event.stage);
      case Kind::kActivationLeft:
        stage.activations.sending = false;
        ++stage.activations.sent;
        return events_.push({now_ + stage.costs.activation_latency, Kind::kInput, event.stage + 1});
      case Kind::kGradientLeft:
        stage.gradients.sending = false;
        ++stage.gradients.sent;
        return events_.push(
            {now_ + stage.costs.gradient_latency, Kind::kGradient, event.stage - 1});
      case Kind::kInput: ++stage.progress.inputs_ready; return;
      case Kind::kGradient: ++stage.progress.gradients_ready; return;
    }
  }

  void Finish(std::size_t s) {
    Stage& stage = stages_[s];
    const OpKind kind = stage.running->kind;
    stage.running.reset();
    if (kind == OpKind::kBackwardWeights && ++stage.weight_parts_done == stage.weight_parts) {
      stage.weight_parts_done = 0;
      Count(kind, &stage.progress);
    }
    stage.times.done_ms = now_ / kPerMillisecond;
    if (kind == OpKind::kForward && s + 1 == stages_.size()) ++stage.progress.gradients_ready;
    if (kind == OpKind::kForward && s + 1 < stages_.size()) ++stage.activations.queued;
    if (kind == OpKind::kBackwardInput && s > 0) ++stage.gradients.queued;
  }

  void SendWhatIsFree() {
    for (const std::size_t s : touched_) {
      Stage& stage = stages_[s];
      const auto may = [&](const Direction& direction, const Direction& other) {
        return direction.sent < direction.queued && !direction.sending &&
               (!options_.shared_egress || !other.sending);
      };
      if (may(stage.gradients, stage.activations)) {
        Send(s, &stage.gradients, stage.costs.gradient, Kind::kGradientLeft, SpanKind::kGradient);
      }
      if (may(stage.activations, stage.gradients)) {
        Send(s, &stage.activations, stage.costs.activation, Kind::kActivationLeft,
             SpanKind::kActivation);
      }
    }
  }

  void Send(std::size_t s, Direction* direction, Nanoseconds cost, Kind left, SpanKind span) {
    direction->sending = true;
    stages_[s].times.link_busy_ms += cost / kPerMillisecond;
    Keep(span, s, direction->sent, cost);
    events_.push({now_ + cost, left, s});
  }

  void Pump(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.running) return;
    StageProgress& progress = stage.progress;
    stage.running = NextOp(options_.schedule, progress);
    NoteWait(&stage);
    if (!stage.running) return;
    const OpKind kind = stage.running->kind;
    if (kind != OpKind::kBackwardWeights) Count(kind, &progress);
    stage.times.in_flight_most =
        std::max(stage.times.in_flight_most, progress.forwards - progress.backwards);
    stage.times.pending_weights_most =
        std::max(stage.times.pending_weights_most, progress.backwards - progress.weight_backwards);
    const Nanoseconds cost = kind == OpKind::kBackwardWeights
                                 ? WeightPart(stage)
                                 : stage.costs.operation[static_cast<std::size_t>(kind)];
    stage.times.busy_ms += cost / kPerMillisecond;
    const SpanKind span = kind == OpKind::kForward         ? SpanKind::kForward
                          : kind == OpKind::kBackwardInput ? SpanKind::kBackwardInput
                                                           : SpanKind::kBackwardWeights;
    Keep(span, s, stage.running->micro_batch, cost);
    events_.push({now_ + cost, Kind::kOperation, s});
  }

  // Of the part that is next: whole nanoseconds that add up.
  static Nanoseconds WeightPart(const Stage& stage) {
    const Nanoseconds whole = stage.costs.operation[static_cast<int>(OpKind::kBackwardWeights)];
    const auto until = [&](std::uint32_t parts) {
      return std::floor(whole * parts / stage.weight_parts);
    };
    return until(stage.weight_parts_done + 1) - until(stage.weight_parts_done);
  }

  void NoteWait(Stage* stage) {
    const double waited = (now_ - stage->wait_since) / kPerMillisecond;
    if (stage->wait == Wait::kInput) stage->times.wait_input_ms += waited;
    if (stage->wait == Wait::kGradient) stage->times.wait_gradient_ms += waited;
    stage->wait = Wait::kNothing;
    stage->wait_since = now_;
    if (stage->running || AllDone(stage->progress)) return;
    stage->wait = HasRoom(stage->progress) ? Wait::kInput : Wait::kGradient;
  }

  void Keep(SpanKind kind, std::size_t stage, std::uint32_t micro_batch, Nanoseconds cost) {
    if (!options_.keep_spans) return;
    result_.spans.push_back({kind, static_cast<std::uint32_t>(stage), micro_batch,
                             now_ / kPerMillisecond, (now_ + cost) / kPerMillisecond});
  }

  const SimulationOptions options_;
  std::vector<Stage> stages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::size_t> touched_;  // stages with an event at this instant
  Nanoseconds now_ = 0;
  SimulatedStep result_;
};

}  // namespace

SimulatedStep SimulateStep(std::span<const SimulatedStage> stages,
                           const SimulationOptions& options) {
  SimulatedStep step = Simulation(stages, options).Run();
  const auto ends_first = [](const SimulatedSpan& a, const SimulatedSpan& b) {
    return a.end_ms < b.end_ms;
  };
  std::stable_sort(step.spans.begin(), step.spans.end(), ends_first);
  return step;
}

}  // namespace shoal::pipeline
