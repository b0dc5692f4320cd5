#include "client/chaos_faults.h"

#include <algorithm>
#include <utility>

namespace shoal::client {
namespace {

constexpr std::pair<FaultKind, const char*> kNames[] = {
    {FaultKind::kKill, "kill"},           {FaultKind::kStop, "stop"},
    {FaultKind::kScheduler, "scheduler"}, {FaultKind::kPause, "pause"},
    {FaultKind::kThrottle, "throttle"},   {FaultKind::kCut, "cut"},
    {FaultKind::kDiskFull, "disk-full"}};

// Up to how many seconds it lasts.
double LongestOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKill: return 8;
    case FaultKind::kStop: return 15;  // shorter and longer than a peer may be silent
    case FaultKind::kScheduler: return 3;
    case FaultKind::kPause: return 6;
    case FaultKind::kThrottle: return 4;
    case FaultKind::kCut: return 15;
    case FaultKind::kDiskFull: return 8;
  }
  return 0;
}

}  // namespace

std::string FaultKindName(FaultKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

Result<std::vector<FaultKind>> ParseFaultKinds(const std::vector<std::string>& names) {
  std::vector<FaultKind> kinds;
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find_if(kNames, [&](const auto& known) { return known.second == name; });
    if (found == std::end(kNames)) {
      std::string all;
      for (const auto& [kind, known] : kNames)
        all += (all.empty() ? "" : ", ") + std::string(known);
      return InvalidArgument("'" + name + "' is no kind of fault; there are " + all);
    }
    kinds.push_back(found->first);
  }
  if (kinds.empty()) return InvalidArgument("name at least one kind of fault");
  return kinds;
}

// Whole numbers and plain division, so that a seed draws the same faults everywhere.
Fault FaultSource::Next() {
  const auto share = [this] { return static_cast<double>(random_() % 1000) / 1000; };
  Fault fault;
  fault.kind = kinds_[random_() % kinds_.size()];
  fault.peer = random_() % peers_;
  fault.seconds = 0.2 + share() * LongestOf(fault.kind);
  fault.wait_seconds = share() * 2;
  return fault;
}

void FaultCost::See(std::uint64_t now, double seconds) {
  if (over()) return;
  if (now < most_) steps_lost = std::max(steps_lost, most_ - now);
  seconds_to_next_step = std::max(seconds_to_next_step, seconds - progress_);
  if (now <= most_) return;
  most_ = now;
  progress_ = seconds;
}

std::map<std::string, KindSummary> Summarise(const std::vector<FaultCost>& costs) {
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, KindSummary> summaries;
  for (const FaultCost& cost : costs) {
    KindSummary& summary = summaries[FaultKindName(cost.fault.kind)];
    ++summary.faults;
    summary.steps_lost += cost.steps_lost;
    seconds[FaultKindName(cost.fault.kind)].push_back(cost.seconds_to_next_step);
  }
  for (auto& [kind, all] : seconds) {
    std::ranges::sort(all);
    summaries[kind].median_seconds = all[all.size() / 2];
    summaries[kind].most_seconds = all.back();
  }
  return summaries;
}

}  // namespace shoal::client
