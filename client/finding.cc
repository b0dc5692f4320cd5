#include "client/finding.h"

#include <nlohmann/json.hpp>

#include "client/terminal.h"
#include "common/nesting.h"

namespace shoal::client {
namespace {

using nlohmann::json;

const json& At(const json& object, const char* key) {
  static const json nothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : nothing;
}

std::string TextOf(const json& object, const char* key) {
  const json& value = At(object, key);
  return value.is_string() ? Printable(value.get_ref<const std::string&>()) : "";
}

void JudgeScheduler(const json& status, std::vector<Finding>* findings) {
  const json& scheduler = At(status, "scheduler");
  const json& addresses = At(scheduler, "addresses");
  if (!addresses.is_array()) return;
  if (addresses.empty()) {
    findings->push_back({Verdict::kHint, "scheduler", "this peer belongs to no run",
                         "`shoal join INVITE` makes it a member"});
    return;
  }
  const std::string first =
      addresses[0].is_string() ? Printable(addresses[0].get_ref<const std::string&>()) : "";
  if (At(scheduler, "connected") == true) {
    findings->push_back({Verdict::kGood, "scheduler", "connected to " + first, ""});
  } else if (TextOf(scheduler, "trouble").empty()) {  // with trouble it is among the health entries
    findings->push_back(
        {Verdict::kHint, "scheduler", "connecting to " + first, "look again in a few seconds"});
  }
}

void JudgeLinks(const json& status, std::vector<Finding>* findings) {
  const json& links = At(status, "links");
  if (!links.is_array()) return;
  std::size_t open = 0;
  for (const json& link : links) {
    if (At(link, "connected") == true) {
      ++open;
      continue;
    }
    findings->push_back(
        {Verdict::kBad, "neighbour",
         "no link to " + TextOf(link, "name") + " (" + TextOf(link, "channel") + ") yet",
         "if it does not pass, one of the two must be reachable: give it a fixed "
         "port with --listen 0.0.0.0:8782 and open or forward that port"});
  }
  if (open > 0) {
    findings->push_back(
        {Verdict::kGood, "neighbours", std::to_string(open) + " links are open", ""});
  }
}

// A peer that has nothing to do says why.
void JudgeState(const json& status, std::vector<Finding>* findings) {
  const std::string state = TextOf(status, "state");
  if (state != "waiting" && state != "paused") return;
  const json& reasons = At(status, "stateReasons");
  std::string why;
  for (const json& reason : reasons.is_array() ? reasons : json::array()) {
    if (reason.is_string()) {
      why += (why.empty() ? "" : "; ") + Printable(reason.get_ref<const std::string&>());
    }
  }
  findings->push_back({Verdict::kHint, "state", state + (why.empty() ? "" : ": " + why),
                       "`shoal status` shows more"});
}

}  // namespace

Finding JudgeGpu(const GpuFacts& facts) {
  if (!facts.card) {
    return {Verdict::kHint, "gpu", "no NVIDIA device",
            "training works on the CPU, slowly; install the NVIDIA driver if there is a card"};
  }
  if (!facts.driver) {
    return {Verdict::kBad, "gpu", "there is an NVIDIA card, but no driver for it",
            "install the NVIDIA driver, or train on the CPU with --device cpu"};
  }
  if (!facts.accessible) {
    return {Verdict::kBad, "gpu", "the NVIDIA device is not accessible",
            "add this user to the groups video and render, then log in again"};
  }
  if (!facts.built) {
    return {Verdict::kHint, "gpu",
            "an NVIDIA device is present; whether shoald can use it is "
            "unknown",
            "run `shoald --print-devices`"};
  }
  if (!*facts.built) {
    return {Verdict::kBad, "gpu",
            "there is an NVIDIA device, but this build of shoal computes on the CPU only",
            "build with ./x build cuda"};
  }
  if (facts.devices == 0) {
    return {Verdict::kBad, "gpu", "there is an NVIDIA device, but CUDA finds none",
            "look at nvidia-smi: the driver may be too old for CUDA 13"};
  }
  return {Verdict::kGood, "gpu", std::to_string(facts.devices) + " CUDA devices can be used", ""};
}

std::vector<Finding> JudgePeer(const std::string& status_json) {
  const json status = ParseJson<json>(status_json);
  if (!At(status, "health").is_array()) {
    return {{Verdict::kHint, "health", "unknown", "start a shoald of the same version"}};
  }
  std::vector<Finding> findings;
  JudgeScheduler(status, &findings);
  JudgeLinks(status, &findings);
  JudgeState(status, &findings);
  bool well = true;
  for (const json& item : status["health"]) {
    if (!item.is_object()) continue;
    well = false;
    const bool error = TextOf(item, "severity") == "error";
    findings.push_back({error ? Verdict::kBad : Verdict::kHint, TextOf(item, "code"),
                        TextOf(item, "text"), TextOf(item, "fix")});
  }
  for (const Finding& finding : findings) well = well && finding.verdict == Verdict::kGood;
  if (well) {
    findings.push_back(
        {Verdict::kGood, "health", "links, store and codecs work as they should", ""});
  }
  return findings;
}

}  // namespace shoal::client
