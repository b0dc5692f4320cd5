#include "pipeline/core/operation_watch.h"

#include <algorithm>

#include "common/units.h"

namespace shoal::pipeline {
namespace {

bool Waits(Watched kind) { return kind == Watched::kWaitInput || kind == Watched::kWaitGradient; }

const char* NameOf(Watched kind) {
  switch (kind) {
    case Watched::kForward: return "the forward";
    case Watched::kBackwardInput: return "the backward";
    case Watched::kBackwardWeights: return "the weight gradient";
    case Watched::kEncode: return "encoding a message";
    case Watched::kDecode: return "decoding a message";
    case Watched::kWaitInput: return "the activation";
    case Watched::kWaitGradient: return "the gradient";
  }
  return "";
}

}  // namespace

std::uint64_t OperationWatch::Begin(Watched kind, MicroBatchId id) {
  const TimePoint now = clock_->Now();
  MutexLock lock(mutex_);
  running_.emplace(++last_token_, Running{kind, id, now});
  return last_token_;
}

void OperationWatch::End(std::uint64_t token) {
  const TimePoint now = clock_->Now();
  MutexLock lock(mutex_);
  const auto found = running_.find(token);
  if (found == running_.end()) return;
  const Running ended = found->second;
  running_.erase(found);
  const Duration took = Age(ended, now);
  const std::optional<Duration> deadline = DeadlineOf(ended.kind);
  if (deadline && took > *deadline) return;  // a stop of the process is no usual time
  times_[static_cast<std::size_t>(ended.kind)].Add(took);
}

void OperationWatch::Forget(std::uint64_t token) {
  MutexLock lock(mutex_);
  running_.erase(token);
}

void OperationWatch::Excuse(std::uint64_t token) {
  const TimePoint now = clock_->Now();
  MutexLock lock(mutex_);
  const auto found = running_.find(token);
  if (found != running_.end()) found->second.excused = now - found->second.since;
}

std::optional<OperationWatch::Overdue> OperationWatch::Look() {
  const TimePoint now = clock_->Now();
  MutexLock lock(mutex_);
  const TimePoint before = looked_.value_or(now);
  looked_ = now;
  const Duration lost = now - before - 2 * kLookEvery;
  std::optional<Overdue> overdue;
  Duration most{};
  for (auto& [token, running] : running_) {
    if (lost > Duration::zero()) {
      // Of what it could have been at work since.
      running.excused += std::min(lost, Age(running, now));
    }
    const Duration age = Age(running, now);
    const std::optional<Duration> deadline = DeadlineOf(running.kind);
    if (!deadline || age <= *deadline || age - *deadline <= most) continue;
    most = age - *deadline;
    overdue = Overdue{running.kind, running.id, Describe(running, age)};
  }
  return overdue;
}

Duration OperationWatch::longest() const {
  MutexLock lock(mutex_);
  Duration longest{};
  for (const UsualTime& times : times_) longest = std::max(longest, times.longest());
  return longest;
}

Duration OperationWatch::Age(const Running& running, TimePoint now) const {
  return std::max(Duration::zero(), now - running.since - running.excused);
}

std::optional<Duration> OperationWatch::DeadlineOf(Watched kind) const {
  return times(kind).Deadline(Waits(kind) ? limits_.wait : limits_.operation);
}

std::string OperationWatch::Describe(const Running& running, Duration age) const {
  const UsualTime& usual = times(running.kind);
  return std::string(NameOf(running.kind)) + " of micro-batch " + std::to_string(running.id.index) +
         " of step " + std::to_string(running.id.step) +
         (Waits(running.kind) ? " did not come for " : " has taken ") + FormatDuration(age) +
         "; usually " + FormatDuration(usual.typical()) + ", at most " +
         FormatDuration(usual.longest());
}

}  // namespace shoal::pipeline
