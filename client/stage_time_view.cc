#include "client/stage_time_view-inl.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

#include "common/units.h"
#include "net/http/status_fields.h"

namespace shoal::client {
namespace {

// The neighbour across a boundary, as the link to it names it.
std::string NeighbourName(const Json& status, std::int64_t boundary, const char* otherwise) {
  const std::string channel = "boundary/" + std::to_string(Whole(At(status, "role"), "pipeline")) +
                              "/" + std::to_string(boundary);
  for (const Json& link : List(status, "links")) {
    if (Text(link, "channel") == channel) return Text(link, "name");
  }
  return otherwise;
}

// Whose work is awaited; empty: its own, or that of all.
std::string AwaitedPeer(const Json& status, std::string_view activity) {
  const auto stage = static_cast<std::int64_t>(Whole(At(status, "role"), "stage"));
  if (activity == "wait_input") return NeighbourName(status, stage - 1, "the stage before");
  if (activity == "wait_gradient") return NeighbourName(status, stage, "the next stage");
  return "";
}

std::vector<net::ActivityLabel> Activities(bool computing) {
  std::vector<net::ActivityLabel> activities;
  for (const net::ActivityLabel& activity : net::ActivityLabels()) {
    if (activity.awaited.empty() == computing) activities.push_back(activity);
  }
  return activities;
}

std::string Plural(std::uint64_t count, const char* one, const char* ending) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : ending);
}

}  // namespace

double StageTime::Percent(std::string_view activity) const {
  const auto found = ms.find(std::string(activity));
  return found == ms.end() || total_ms <= 0 ? 0 : 100 * found->second / total_ms;
}

StageTime StageTimeOf(const Json& status) {
  StageTime time;
  for (const Json& part : List(At(status, "work"), "time")) {
    const double ms = std::clamp(Number(part, "ms"), 0.0, 1e15);
    time.ms[Text(part, "activity")] += ms;
    time.total_ms += ms;
  }
  return time;
}

double ComputePercent(const StageTime& time) {
  double percent = 0;
  for (const auto& activity : Activities(true)) percent += time.Percent(activity.name);
  return percent;
}

std::vector<Row> TimeRows(const Json& status) {
  const StageTime time = StageTimeOf(status);
  if (time.total_ms <= 0) return {};
  std::string computes;
  for (const auto& activity : Activities(true)) {
    computes += (computes.empty() ? " " : ", ") + std::string(activity.label) + " " +
                Decimal("%.0f", time.Percent(activity.name));
  }
  std::string waits;
  for (const auto& activity : Activities(false)) {
    const double percent = time.Percent(activity.name);
    if (percent < 0.5) continue;
    const std::string peer = AwaitedPeer(status, activity.name);
    waits += (waits.empty() ? "" : ", ") + std::string(activity.awaited) +
             (peer.empty() ? "" : " of " + peer) + " " + WholePercent(percent);
  }
  return {
      {RowName("work.computes"), WholePercent(ComputePercent(time)) + " of the time:" + computes},
      {RowName("work.waitsFor"), waits.empty() ? "nothing" : waits}};
}

// The simulation of a step leaves the micro-batches out that are more than `kSimulated`.
std::string SimulatedText(const Json& work) {
  constexpr std::uint64_t kSimulated = 64;
  const double bounded_ms = Number(work, "simulatedMs");
  const double unlimited_ms = Number(work, "unlimitedMs");
  if (bounded_ms < 0.5 || unlimited_ms < 0.5) return "";
  std::string text = MillisecondsText(bounded_ms);
  if (Whole(work, "microBatches") > kSimulated) {
    text += " for " + std::to_string(kSimulated) + " micro-batches";
  }
  const std::string unlimited = MillisecondsText(unlimited_ms);
  return text + (MillisecondsText(bounded_ms) == unlimited ? ", as" : ", " + unlimited) +
         " without bounds";
}

bool HasSchedule(const Json& status) {
  const Json& work = At(status, "work");
  return At(status, "role").is_object() && Whole(work, "microBatches") > 0 &&
         !Text(work, "schedule").empty();
}

bool PutsWeightsOff(const Json& work) { return Text(work, "schedule") != "1f1b"; }

std::vector<Row> ScheduleRows(const Json& status) {
  if (!HasSchedule(status)) return {};
  const Json& work = At(status, "work");
  std::string text = Text(work, "schedule") + ": at most " +
                     Plural(Whole(work, "inFlightMax"), "micro-batch", "es") + " in flight";
  if (PutsWeightsOff(work)) {
    text +=
        ", " + std::to_string(Whole(work, "pendingWeightsMax")) + " with weight gradients pending";
  }
  if (const std::uint64_t bytes = Whole(work, "memoryMaxBytes"); bytes > 0) {
    text += ", up to " + FormatBytes(bytes) + " of memory";
  }
  if (const std::string simulated = SimulatedText(work); !simulated.empty()) {
    text += "; simulated step " + simulated;
  }
  return {{RowName("work.schedule"), text}};
}

std::string LongestWait(const Json& status) {
  const StageTime time = StageTimeOf(status);
  net::ActivityLabel longest;
  double percent = 0;
  for (const auto& activity : Activities(false)) {
    if (time.Percent(activity.name) <= percent) continue;
    longest = activity;
    percent = time.Percent(activity.name);
  }
  if (percent < 0.5) return "-";
  const std::string peer = AwaitedPeer(status, longest.name);
  return (peer.empty() ? std::string(longest.awaited) : peer) + " " + WholePercent(percent);
}

std::string LinkBusy(const Json& link, const StageTime& time) {
  if (time.total_ms <= 0) return "-";
  const double busy_ms = Number(link, "stallRateLimitMs") + Number(link, "stallNetworkMs");
  return WholePercent(std::clamp(100 * busy_ms / time.total_ms, 0.0, 100.0));
}

}  // namespace shoal::client
