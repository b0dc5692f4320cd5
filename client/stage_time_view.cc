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

std::string Awaited(const Json& status, const std::string& activity) {
  const auto stage = static_cast<std::int64_t>(Whole(At(status, "role"), "stage"));
  if (activity == "wait_input") return NeighbourName(status, stage - 1, "the stage before");
  if (activity == "wait_gradient") return NeighbourName(status, stage, "the next stage");
  if (activity == "wait_codec") return "own codec";
  if (activity == "wait_store") return "own store";
  if (activity == "exchange") return "exchange of gradients";
  return "end of step";
}

constexpr const char* kComputes[] = {"forward", "backward_input", "backward_weights", "optimizer"};
constexpr const char* kWaits[] = {"wait_input", "wait_gradient", "wait_codec",
                                  "wait_store", "exchange",      "wait_step"};

std::string Plural(std::uint64_t count, const char* one, const char* ending) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : ending);
}

}  // namespace

double StageTime::Percent(const std::string& activity) const {
  const auto found = ms.find(activity);
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
  for (const char* activity : kComputes) percent += time.Percent(activity);
  return percent;
}

std::vector<Row> TimeRows(const Json& status) {
  const StageTime time = StageTimeOf(status);
  if (time.total_ms <= 0) return {};
  std::string computes = WholePercent(ComputePercent(time)) + " of the time:";
  for (const char* activity : kComputes) {
    computes += (activity == kComputes[0] ? " " : ", ") +
                net::PeerLabel("work.time[].activity", activity) + " " +
                Decimal("%.0f", time.Percent(activity));
  }
  std::string waits;
  for (const std::string activity : kWaits) {
    if (time.Percent(activity) < 0.5) continue;
    const char* const what = activity == "wait_input"      ? "activations of "
                             : activity == "wait_gradient" ? "gradients of "
                                                           : "";
    waits += (waits.empty() ? "" : ", ") + (what + Awaited(status, activity)) + " " +
             WholePercent(time.Percent(activity));
  }
  return {{"  computes", computes}, {"  waits for", waits.empty() ? "nothing" : waits}};
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
  const char* longest = kWaits[0];
  for (const char* activity : kWaits) {
    if (time.Percent(activity) > time.Percent(longest)) longest = activity;
  }
  if (time.Percent(longest) < 0.5) return "-";
  return Awaited(status, longest) + " " + WholePercent(time.Percent(longest));
}

std::string LinkBusy(const Json& link, const StageTime& time) {
  if (time.total_ms <= 0) return "-";
  const double busy_ms = Number(link, "stallRateLimitMs") + Number(link, "stallNetworkMs");
  return WholePercent(std::clamp(100 * busy_ms / time.total_ms, 0.0, 100.0));
}

}  // namespace shoal::client
