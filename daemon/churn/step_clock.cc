#include "daemon/churn/step_clock.h"

#include <algorithm>
#include <utility>

#include "daemon/churn/events.h"
#include "pipeline/core/step_simulation.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kKnownMax = 100'000;

}  // namespace

double StepClock::ForwardBytes(const PipelineWork& work, std::uint32_t boundary) const {
  if (work.micro_batches == 0 || boundary >= work.first_visits.size()) return 0;
  const double first = static_cast<double>(work.first_visits[boundary]) / work.micro_batches;
  return first * model_.first_bytes + (1 - first) * model_.change_bytes;
}

const PipelineTimes& StepClock::TimesOf(const PipelineWork& work) {
  if (const auto found = known_.find(work); found != known_.end()) return found->second;
  if (known_.size() >= kKnownMax) known_.clear();
  std::vector<pipeline::SimulatedStage> stages;
  for (std::uint32_t s = 0; s < model_.stages.size(); ++s) {
    pipeline::SimulatedStage stage;
    stage.forward_ms = model_.stages[s].forward_ms;
    stage.backward_input_ms = model_.stages[s].backward_input_ms;
    stage.backward_weights_ms = model_.stages[s].backward_weights_ms;
    stage.forward_bytes = ForwardBytes(work, s);
    stage.backward_bytes = model_.gradient_bytes;
    stage.egress_bps = static_cast<double>(settings_.upload.value);
    if (s < work.percent.size()) stage.egress_bps *= work.percent[s] / 100.0;
    stage.latency_ms = Milliseconds(settings_.latency);
    stages.push_back(stage);
  }
  pipeline::SimulationOptions options;
  options.micro_batches = work.micro_batches;
  options.keep_spans = false;
  const pipeline::SimulatedStep step = pipeline::SimulateStep(stages, options);
  PipelineTimes times;
  times.seconds = step.step_ms * 1e-3;
  for (const auto& stage : step.stages) times.done_seconds.push_back(stage.done_ms * 1e-3);
  return known_[work] = std::move(times);
}

double StepClock::ExchangeSeconds(std::uint32_t stage, std::uint32_t members,
                                  std::uint32_t shadows) const {
  if (members + shadows < 2) return 0;
  // Contributions to the other members, then the own part of the sums to everybody.
  const double rounds = (2.0 * (members - 1) + shadows) / members;
  return rounds * 8 * model_.stages[stage].exchange_bytes /
             static_cast<double>(settings_.upload.value) +
         2 * Seconds(settings_.latency);
}

double StepClock::PeriodSeconds(double slowest, std::uint32_t members) const {
  double exchange = 0;
  for (std::uint32_t s = 0; s < model_.stages.size(); ++s) {
    exchange = std::max(exchange, ExchangeSeconds(s, members, 0));
  }
  // StepReady, Reduce, SyncDone, Apply.
  return slowest + exchange + 4 * Seconds(settings_.latency);
}

double StepClock::UsualSeconds(std::uint32_t first_visits, std::vector<std::uint32_t> percent) {
  PipelineWork work;
  work.micro_batches = settings_.micro_batches;
  work.first_visits.assign(model_.stages.size() - 1, first_visits / settings_.pipelines);
  work.percent = std::move(percent);
  return PeriodSeconds(TimesOf(work).seconds, settings_.pipelines);
}

double StepClock::SentBits(const PipelineWork& work, std::uint32_t stage,
                           std::uint32_t members) const {
  double bytes = 0;
  if (stage + 1 < model_.stages.size()) bytes += work.micro_batches * ForwardBytes(work, stage);
  if (stage > 0) bytes += work.micro_batches * model_.gradient_bytes;
  if (members > 1) bytes += 2.0 * (members - 1) / members * model_.stages[stage].exchange_bytes;
  return 8 * bytes;
}

}  // namespace shoal::daemon
