#include "scheduler/steps/step_account.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/status.h"

namespace shoal::scheduler {
namespace {

// Members of a stage group hold the same bits; their norms may differ by the last digits of fp64
// between kinds of machines.
constexpr double kNormTolerance = 1e-9;

bool Agree(double a, double b) {
  return std::abs(a - b) <= kNormTolerance * std::max(std::abs(a), std::abs(b));
}

}  // namespace

void StepAccount::Reset(std::uint32_t pipelines, std::set<Position> gaps) {
  pipelines_ = pipelines;
  gaps_ = std::move(gaps);
  entries_.assign(std::size_t{stages_} * pipelines, Entry{});
}

StepAccount::Entry& StepAccount::At(std::uint32_t pipeline, std::uint32_t stage) {
  SHOAL_CHECK(pipeline < pipelines_ && stage < stages_);
  return entries_[std::size_t{pipeline} * stages_ + stage];
}

const StepAccount::Entry& StepAccount::At(std::uint32_t pipeline, std::uint32_t stage) const {
  return const_cast<StepAccount*>(this)->At(pipeline, stage);
}

void StepAccount::Begin(std::uint64_t step, const std::vector<std::uint32_t>& judged,
                        TimePoint now) {
  step_ = step;
  Judge(judged);
  began_ = last_ready_ = last_synced_ = now;
  ready_ = synced_ = 0;
  std::fill(entries_.begin(), entries_.end(), Entry{});
}

void StepAccount::Judge(const std::vector<std::uint32_t>& judged) {
  judged_ = judged;
  if (!judged.empty()) return;
  judged_.resize(pipelines_);
  std::iota(judged_.begin(), judged_.end(), 0u);
}

void StepAccount::Lose(const std::set<Position>& lost) {
  for (const auto& [pipeline, stage] : lost) {
    const Entry entry = std::exchange(At(pipeline, stage), Entry{});
    ready_ -= entry.ready ? 1 : 0;
    synced_ -= entry.synced ? 1 : 0;
  }
  gaps_.insert(lost.begin(), lost.end());
}

void StepAccount::GoOnWithout(const std::set<Position>& lost,
                              const std::vector<std::uint32_t>& judged) {
  gaps_.insert(lost.begin(), lost.end());
  Judge(judged);
  ready_ = synced_ = 0;
  std::fill(entries_.begin(), entries_.end(), Entry{});
}

bool StepAccount::AddReady(std::uint32_t pipeline, std::uint32_t stage,
                           const control::v1::StepReady& ready, TimePoint now) {
  Entry& entry = At(pipeline, stage);
  if (entry.ready) return false;
  entry.ready = true;
  entry.ready_at = now;
  if (stage + 1 == stages_) {
    entry.labels = ready.labels();
    entry.loss_sum = ready.loss_sum();
    entry.evaluation_labels = ready.evaluation_labels();
    entry.evaluation_loss_sum = ready.evaluation_loss_sum();
  }
  // Members clip by it; a gradient that is lost counts as zeros.
  entry.local_squared_norm = std::isfinite(ready.squared_norm()) ? ready.squared_norm() : 0;
  entry.timing = ready.timing();
  ++ready_;
  last_ready_ = now;
  return true;
}

bool StepAccount::AddSynced(std::uint32_t pipeline, std::uint32_t stage, double squared_norm,
                            TimePoint now) {
  Entry& entry = At(pipeline, stage);
  if (entry.synced) return false;
  entry.synced = true;
  entry.squared_norm = squared_norm;
  ++synced_;
  last_synced_ = now;
  return true;
}

std::uint64_t StepAccount::labels() const {
  std::uint64_t labels = 0;
  for (const Entry& entry : entries_) labels += entry.labels;
  return labels;
}

double StepAccount::loss_sum() const {
  double sum = 0;
  for (std::uint32_t p = 0; p < pipelines_; ++p) sum += At(p, stages_ - 1).loss_sum;
  return sum;
}

std::optional<std::uint32_t> StepAccount::lost_loss() const {
  for (std::uint32_t p = 0; p < pipelines_; ++p) {
    if (!std::isfinite(At(p, stages_ - 1).loss_sum)) return p;
  }
  return std::nullopt;
}

bool StepAccount::any_loss_finite() const {
  for (std::uint32_t p = 0; p < pipelines_; ++p) {
    const Entry& entry = At(p, stages_ - 1);
    if (entry.labels > 0 && std::isfinite(entry.loss_sum)) return true;
  }
  return false;
}

std::optional<double> StepAccount::held_out_loss() const {
  std::uint64_t labels = 0;
  double sum = 0;
  for (std::uint32_t p = 0; p < pipelines_; ++p) {
    labels += At(p, stages_ - 1).evaluation_labels;
    sum += At(p, stages_ - 1).evaluation_loss_sum;
  }
  // A loss that is not finite may have no labels: a stage before the last one stopped there.
  if (labels == 0 && std::isfinite(sum)) return std::nullopt;
  return sum / static_cast<double>(std::max<std::uint64_t>(labels, 1));
}

Duration StepAccount::ready_after(std::uint32_t pipeline, std::uint32_t stage) const {
  return At(pipeline, stage).ready_at - began_;
}

Duration StepAccount::ready_after(const std::vector<std::uint32_t>& pipelines) const {
  Duration last{};
  for (const std::uint32_t pipeline : pipelines) {
    for (std::uint32_t s = 0; s < stages_; ++s) last = std::max(last, ready_after(pipeline, s));
  }
  return last;
}

std::uint64_t StepAccount::local_labels(std::uint32_t pipeline) const {
  return At(pipeline, stages_ - 1).labels;
}

double StepAccount::local_norm(std::uint32_t pipeline) const {
  double sum = 0;
  for (std::uint32_t s = 0; s < stages_; ++s) sum += At(pipeline, s).local_squared_norm;
  const std::uint64_t labels = At(pipeline, stages_ - 1).labels;
  return labels == 0 ? 0 : std::sqrt(sum) / static_cast<double>(labels);
}

double StepAccount::squared_norm() const {
  double sum = 0;
  for (std::uint32_t s = 0; s < stages_; ++s) sum += squared_norm_of(s);
  return sum;
}

std::vector<std::uint32_t> StepAccount::Judged(std::uint32_t stage) const {
  std::vector<std::uint32_t> judged = judged_;
  std::erase_if(judged, [&](std::uint32_t p) { return gaps_.contains({p, stage}); });
  return judged;
}

double StepAccount::squared_norm_of(std::uint32_t stage) const {
  const auto first = std::ranges::find_if(judged_, [&](std::uint32_t p) {
    return !gaps_.contains({p, stage});
  });
  SHOAL_CHECK(first != judged_.end());
  return At(*first, stage).squared_norm;
}

std::optional<std::uint32_t> StepAccount::disagreeing_stage() const {
  for (std::uint32_t s = 0; s < stages_; ++s) {
    for (const std::uint32_t p : Judged(s)) {
      if (!Agree(squared_norm_of(s), At(p, s).squared_norm)) return s;
    }
  }
  return std::nullopt;
}

double StepAccount::local_loss(std::uint32_t pipeline) const {
  const Entry& entry = At(pipeline, stages_ - 1);
  return entry.loss_sum / static_cast<double>(entry.labels);
}

std::vector<std::uint32_t> StepAccount::disagreeing(std::uint32_t stage) const {
  const std::vector<std::uint32_t> judged = Judged(stage);
  std::vector<std::uint32_t> differing;
  for (const std::uint32_t reference : judged) {
    differing.clear();
    for (const std::uint32_t p : judged) {
      const double norm = At(reference, stage).squared_norm;
      if (!Agree(norm, At(p, stage).squared_norm)) differing.push_back(p);
    }
    if (2 * differing.size() < judged.size()) return differing;
  }
  return judged;
}

std::vector<control::v1::StageTiming> StepAccount::timings() const {
  std::vector<control::v1::StageTiming> timings(stages_);
  for (std::uint32_t s = 0; s < stages_; ++s) {
    control::v1::StageTiming& slowest = timings[s];
    for (std::uint32_t p = 0; p < pipelines_; ++p) {
      const control::v1::StageTiming& t = At(p, s).timing;
      slowest.set_forward_ms(std::max(slowest.forward_ms(), t.forward_ms()));
      slowest.set_backward_ms(std::max(slowest.backward_ms(), t.backward_ms()));
      slowest.set_send_forward_ms(std::max(slowest.send_forward_ms(), t.send_forward_ms()));
      slowest.set_send_backward_ms(std::max(slowest.send_backward_ms(), t.send_backward_ms()));
      slowest.set_micro_batch_bytes(std::max(slowest.micro_batch_bytes(), t.micro_batch_bytes()));
      slowest.set_backward_weights_ms(
          std::max(slowest.backward_weights_ms(), t.backward_weights_ms()));
      slowest.set_round_trip_ms(std::max(slowest.round_trip_ms(), t.round_trip_ms()));
      slowest.set_pending_weights_bytes(
          std::max(slowest.pending_weights_bytes(), t.pending_weights_bytes()));
    }
  }
  return timings;
}

}  // namespace shoal::scheduler
