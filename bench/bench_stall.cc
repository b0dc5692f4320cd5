#include "bench/bench_stall.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "common/nesting.h"
#include "common/units.h"
#include "net/http/status_fields.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

Json ObjectOf(const std::optional<std::string>& text) {
  Json json = text ? ParseJson<Json>(*text) : Json();
  return json.is_object() ? json : Json::object();
}

Json ObjectIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

Json ListIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : Json::array();
}

std::string TextIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

double NumberIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::map<std::string, double> TimeOf(const Json& status) {
  std::map<std::string, double> time;
  for (const Json& part : ListIn(ObjectIn(status, "work"), "time")) {
    if (part.is_object()) time[TextIn(part, "activity")] += NumberIn(part, "ms");
  }
  return time;
}

// The activity that took most of the time between two statuses; "" if none grew.
std::string MainActivity(const Json& first, const Json& second) {
  const std::map<std::string, double> before = TimeOf(first);
  std::string most;
  double most_ms = 0;
  for (const auto& [activity, ms] : TimeOf(second)) {
    const auto found = before.find(activity);
    const double grown = ms - (found == before.end() ? 0 : found->second);
    if (grown <= most_ms) continue;
    most = activity;
    most_ms = grown;
  }
  return most;
}

std::string Describe(const std::string& activity, std::int64_t stage) {
  if (activity.empty()) return "does nothing";
  const std::string label = net::PeerLabel("work.time[].activity", activity);
  if (activity == "wait_input") return label + " of stage " + std::to_string(stage - 1);
  if (activity == "wait_gradient") return label + " of stage " + std::to_string(stage + 1);
  const auto& activities = net::ActivityLabels();
  const bool waits = std::any_of(activities.begin(), activities.end(), [&](const auto& one) {
    return one.name == activity && !one.awaited.empty();
  });
  return waits ? label : net::PeerLabel("work.computes") + " (" + label + ")";
}

std::string DescribeLinks(const Json& status) {
  std::string text;
  for (const Json& link : ListIn(status, "links")) {
    if (!link.is_object()) continue;
    const std::string name = TextIn(link, "name");
    if (!link.value("connected", false)) text += ", its link to " + name + " is down";
    const double queued = NumberIn(link, "queueBytes");
    if (queued <= 0) continue;
    text += ", " + FormatBytes(static_cast<std::uint64_t>(queued)) + " wait to go to " + name;
  }
  return text;
}

// Without what the run's own reason says.
std::string Reasons(const Json& status, const std::string& of_run) {
  std::string text;
  for (const Json& reason : ListIn(status, "stateReasons")) {
    if (!reason.is_string()) continue;
    const auto said = reason.get<std::string>();
    if (of_run.empty() || said.find(of_run) == std::string::npos) text += ": " + said;
  }
  return text;
}

std::string DescribeRun(const std::optional<std::string>& scheduler) {
  if (!scheduler) return "the scheduler does not answer";
  const Json run = ObjectIn(ObjectOf(scheduler), "run");
  const std::string reason = TextIn(run, "reason");
  return "the run is " + TextIn(run, "state") + (reason.empty() ? "" : " (" + reason + ")");
}

}  // namespace

std::string DescribeStall(const std::optional<std::string>& scheduler,
                          const std::vector<PeerLooks>& peers) {
  const std::string of_run = TextIn(ObjectIn(ObjectOf(scheduler), "run"), "reason");
  std::string silent;
  std::multimap<std::int64_t, std::string> told;  // by stage; -1: none
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const std::string name = "peer-" + std::to_string(i);
    if (!peers[i].first || !peers[i].second) {
      silent += "; " + name + " does not answer";
      continue;
    }
    const Json first = ObjectOf(peers[i].first), second = ObjectOf(peers[i].second);
    const Json role = ObjectIn(second, "role");
    if (role.empty()) {
      told.emplace(-1, "; " + name + " has no stage and is " + TextIn(second, "state") +
                           Reasons(second, of_run));
      continue;
    }
    const auto stage = static_cast<std::int64_t>(NumberIn(role, "stage"));
    told.emplace(stage, "; stage " + std::to_string(stage) + " (" + name + ") " +
                            Describe(MainActivity(first, second), stage) + DescribeLinks(second));
  }
  std::string text = DescribeRun(scheduler) + silent;
  for (const auto& [stage, line] : told) text += line;
  return text;
}

}  // namespace shoal::bench
