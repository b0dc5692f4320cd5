#include "pipeline/core/step_bounds.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "pipeline/core/step_simulation.h"

namespace shoal::pipeline {
namespace {

// Micro-batches of a simulated step: enough for the steady state.
constexpr std::uint32_t kSimulated = 64;
// A bound is good if it costs no more than this over an unlimited one.
constexpr double kTolerance = 1.01;
constexpr double kMargin = 2;
// The simulation speaks of bytes and rates, measurements of milliseconds: one byte takes one.
constexpr double kBytePerMillisecondBps = 8e3;

// Measured times come from other peers: what is no sensible number counts as zero.
double Sane(double milliseconds) {
  return std::isfinite(milliseconds) && milliseconds > 0 ? milliseconds : 0;
}

// One stage as the simulation sees it, and the round trip over the boundary to the next one.
struct Measured {
  std::vector<SimulatedStage> stages;
  bool known = false;
};

Measured Measure(const std::vector<StageTimes>& times) {
  Measured result;
  result.stages.resize(times.size());
  for (std::size_t s = 0; s < times.size(); ++s) {
    SimulatedStage& stage = result.stages[s];
    stage.forward_ms = Sane(times[s].forward_ms);
    stage.backward_input_ms = Sane(times[s].backward_input_ms);
    stage.backward_weights_ms = Sane(times[s].backward_weights_ms);
    stage.forward_bytes = s + 1 < times.size() ? Sane(times[s].send_forward_ms) : 0;
    stage.backward_bytes = s > 0 ? Sane(times[s].send_backward_ms) : 0;
    stage.egress_bps = kBytePerMillisecondBps;
    result.known = result.known || stage.forward_ms + stage.backward_input_ms > 0;
  }
  // What a round trip took beyond both transfers and the compute above: codec, queues, distance.
  for (std::size_t s = 0; s + 1 < times.size(); ++s) {
    const SimulatedStage& above = result.stages[s + 1];
    if (Sane(times[s].round_trip_ms) == 0) continue;
    const double there_and_back = times[s].round_trip_ms - Sane(times[s + 1].round_trip_ms) -
                                  above.forward_ms - above.backward_input_ms;
    result.stages[s].forward_latency_ms =
        Sane(there_and_back - result.stages[s].forward_bytes - above.backward_bytes);
  }
  if (result.known) return result;
  // Before the first step: slow lines, so that it is not spent on waiting.
  for (SimulatedStage& stage : result.stages) {
    stage.forward_ms = stage.backward_input_ms = stage.backward_weights_ms = 1;
    stage.forward_bytes = stage.backward_bytes = 2;
  }
  return result;
}

// A pipeline of this schedule with these bounds on a step of this length.
class Trial {
 public:
  Trial(ScheduleKind kind, std::vector<SimulatedStage> stages, std::uint32_t micro_batches)
      : kind_(kind),
        stages_(std::move(stages)),
        micro_batches_(micro_batches),
        simulated_(std::min(micro_batches, kSimulated)) {}

  // Whether both directions share a line. A time measured under load has the other direction in
  // it, and then the line must not be shared once more; one measured without load has not.
  SimulatedStep Run(bool shared = false) const {
    return SimulateStep(stages_, {.schedule = kind_,
                                  .micro_batches = simulated_,
                                  .shared_egress = shared,
                                  .keep_spans = false});
  }
  ScheduleKind kind() const { return kind_; }
  SimulatedStage& stage(std::size_t s) { return stages_[s]; }

  // Per stage s: `factor` times the round trip of a micro-batch to the last stage and back, divided
  // by the time between two micro-batches. At least the plain S - s.
  void BoundByRoundTrip(double factor) {
    double period = 0;  // of the slowest stage or link, which sets the pace of all
    for (const SimulatedStage& stage : stages_) {
      period =
          std::max({period, stage.forward_ms + stage.backward_input_ms + stage.backward_weights_ms,
                    stage.forward_bytes, stage.backward_bytes});
    }
    const double most = micro_batches_;
    double round_trip = 0;
    for (std::size_t s = stages_.size(); s-- > 0;) {
      SimulatedStage& stage = stages_[s];
      round_trip += stage.forward_ms + stage.backward_input_ms + stage.backward_weights_ms +
                    stage.forward_bytes + stage.forward_latency_ms;
      // The epsilon keeps a quotient that is whole up to rounding from becoming one more.
      const double needed = period > 0 ? std::ceil(factor * round_trip / period - 1e-9) : 0;
      const auto plain = static_cast<double>(stages_.size() - s);
      stage.in_flight = static_cast<std::uint32_t>(std::clamp(needed, std::min(plain, most), most));
      // The last stage goes backward at once: more in flight there would only cost memory.
      if (s + 1 == stages_.size()) stage.in_flight = 1;
      round_trip += stage.backward_bytes;
    }
  }

 private:
  ScheduleKind kind_;
  std::vector<SimulatedStage> stages_;
  std::uint32_t micro_batches_;
  std::uint32_t simulated_;
};

// Bytes of one stage's micro-batches.
struct Memory {
  std::uint64_t all = 0, in_flight = 0, pending = 0;  // bound, and of one

  // Of what a stage holds while both bounds are reached; 1F1B does W at once.
  std::uint64_t Of(const StepBounds& bounds) const {
    const std::uint32_t waiting =
        bounds.schedule == ScheduleKind::k1f1b ? 0 : bounds.pending_weights_max;
    return bounds.in_flight * in_flight + waiting * pending;
  }

  bool Fits(const SimulatedStage& stage) const {
    if (all == 0) return true;
    return static_cast<double>(stage.in_flight) * static_cast<double>(in_flight) +
               static_cast<double>(stage.pending_weights_max) * static_cast<double>(pending) <=
           static_cast<double>(all);
  }
};

// Cuts the bounds of stage `s` to what fits. Fewer pending leave room for more in flight; how many
// of each is tried out.
void CutToMemory(Trial* trial, std::size_t s, const Memory& memory) {
  SimulatedStage& stage = trial->stage(s);
  if (memory.Fits(stage)) return;
  const SimulatedStage wanted = stage;
  SimulatedStage best = wanted;
  double best_ms = -1;
  for (std::uint32_t pending = wanted.pending_weights_max;; pending = pending / 4 * 3) {
    pending = std::max(pending, 1u);
    const std::uint64_t held =
        trial->kind() == ScheduleKind::k1f1b ? 0 : std::uint64_t{pending} * memory.pending;
    const std::uint64_t room = memory.all > held ? memory.all - held : 0;
    const std::uint64_t fit = memory.in_flight > 0 ? room / memory.in_flight : wanted.in_flight;
    stage.pending_weights_max = pending;
    stage.in_flight =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fit, 1, wanted.in_flight));
    if (fit >= 1 || pending == 1) {
      const double ms = trial->Run().step_ms;
      if (best_ms < 0 || ms < best_ms) {
        best = stage;
        best_ms = ms;
      }
    }
    if (pending == 1) break;
  }
  stage = best;
}

// The least that may follow a bound.
std::uint32_t SlowFall(std::uint32_t previous) { return previous - previous / 8; }

std::uint32_t Generous(std::uint32_t in_flight, const BoundsRequest& request, std::size_t stages) {
  if (request.stage + 1 == stages) return 1;  // it goes backward at once
  const auto plain = static_cast<std::uint32_t>(stages - request.stage);
  return std::min(std::max(request.micro_batches, 1u),
                  std::max({in_flight, 2 * plain, SlowFall(request.previous.in_flight)}));
}

StepBounds BoundsOf(ScheduleKind kind, const Measured& measured, const BoundsRequest& request,
                    const Memory& memory) {
  const std::uint32_t most = std::max(request.micro_batches, 1u);
  Trial trial(kind, measured.stages, most);
  StepBounds result;
  result.schedule = kind;
  result.unlimited_ms = trial.Run().step_ms;
  const double unlimited_shared_ms = trial.Run(true).step_ms;
  double factor = 1;
  for (const double next : {1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 1e9}) {
    factor = next;
    trial.BoundByRoundTrip(factor);
    if (trial.Run().step_ms <= kTolerance * result.unlimited_ms &&
        trial.Run(true).step_ms <= kTolerance * unlimited_shared_ms) {
      break;
    }
  }
  trial.BoundByRoundTrip(kMargin * factor);
  SimulatedStage& own = trial.stage(request.stage);
  own.in_flight = Generous(own.in_flight, request, measured.stages.size());
  if (request.in_flight_max > 0) own.in_flight = request.in_flight_max;
  if (kind == ScheduleKind::k1f1b) {
    own.pending_weights_max = 1;
  } else {
    const std::uint32_t had = std::max(trial.Run().stages[request.stage].pending_weights_most,
                                       trial.Run(true).stages[request.stage].pending_weights_most);
    const auto least = static_cast<std::uint32_t>(measured.stages.size()) + request.stage;
    own.pending_weights_max = std::min(
        most,
        std::max({had + (had + 3) / 4, least, SlowFall(request.previous.pending_weights_max)}));
  }
  if (request.in_flight_max == 0) {
    CutToMemory(&trial, request.stage, memory);
  } else {
    while (own.pending_weights_max > 1 && !memory.Fits(own)) --own.pending_weights_max;
  }
  result.in_flight = own.in_flight;
  result.pending_weights_max = std::max(own.pending_weights_max, 1u);
  result.simulated_ms = trial.Run().step_ms;
  return result;
}

}  // namespace

Result<SchedulePolicy> ParseSchedulePolicy(std::string_view text) {
  if (text.empty() || text == "auto") return SchedulePolicy::kAuto;
  if (text == "1f1b") return SchedulePolicy::k1f1b;
  if (text == "zero-bubble") return SchedulePolicy::kZeroBubble;
  return InvalidArgument("\"" + std::string(text.substr(0, 40)) +
                         "\" is no schedule; it is one of auto, 1f1b, zero-bubble");
}

StepBounds ChooseBounds(const std::vector<StageTimes>& times, const BoundsRequest& request) {
  if (request.stage >= times.size()) return {};
  const StageTimes& own = times[request.stage];
  const Memory memory{
      request.memory_bytes, own.micro_batch_bytes,
      own.pending_weights_bytes > 0 ? own.pending_weights_bytes : own.micro_batch_bytes};
  const Measured measured = Measure(times);
  StepBounds bounds;
  if (request.policy != SchedulePolicy::k1f1b) {
    bounds = BoundsOf(ScheduleKind::kZeroBubble, measured, request, memory);
  }
  if (request.policy != SchedulePolicy::kZeroBubble) {
    const StepBounds plain = BoundsOf(ScheduleKind::k1f1b, measured, request, memory);
    SimulatedStage least;
    least.in_flight = least.pending_weights_max = 1;
    const bool zero_bubble = request.policy == SchedulePolicy::kAuto && memory.Fits(least) &&
                             bounds.simulated_ms <= plain.simulated_ms;
    if (!zero_bubble) bounds = plain;
  }
  if (!measured.known) bounds.simulated_ms = bounds.unlimited_ms = 0;
  bounds.memory_bytes = memory.Of(bounds);
  return bounds;
}

}  // namespace shoal::pipeline
