#include "client/finding.h"

#include <nlohmann/json.hpp>

#include "client/base/terminal.h"
#include "common/nesting.h"
#include "common/units.h"

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

std::uint64_t BytesOf(const json& object, const char* key) {
  const json& value = At(object, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
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
  const json found = ParseJson<json>(facts.devices_json);
  if (!At(found, "cudaBuild").is_boolean()) {
    return {Verdict::kHint, "gpu",
            "an NVIDIA device is present; whether shoald can use it is unknown",
            "run `shoald --print-devices`"};
  }
  if (!found["cudaBuild"].get<bool>()) {
    return {Verdict::kBad, "gpu",
            "there is an NVIDIA device, but this build of shoal computes on the CPU only",
            "build with ./x setup cuda, then ./x build cuda"};
  }
  const json& devices = At(found, "devices");
  if (!devices.is_array() || devices.empty()) {
    const std::string driver = TextOf(found, "cudaDriver"), runtime = TextOf(found, "cudaRuntime");
    return {Verdict::kBad, "gpu",
            "there is an NVIDIA device, but CUDA finds none (the driver is for CUDA " +
                (driver.empty() ? "of an unknown version" : driver) + ", this build is for " +
                runtime + ")",
            "install a driver of version 580 or newer, then look at nvidia-smi"};
  }
  std::string text, trouble;
  for (const json& device : devices) {
    text += (text.empty() ? "" : ", ") + TextOf(device, "name") + " (compute capability " +
            TextOf(device, "computeCapability") + ", " +
            FormatBytes(BytesOf(device, "freeMemoryBytes")) + " of " +
            FormatBytes(BytesOf(device, "memoryBytes")) + " free; a stage takes up to " +
            FormatBytes(BytesOf(device, "stageMemoryBytes")) + " and computes in " +
            TextOf(device, "compute") + ")";
    if (trouble.empty()) trouble = TextOf(device, "stageMemoryTrouble");
  }
  if (!trouble.empty()) {
    return {Verdict::kBad, "gpu", text + ", but " + trouble, "change limits.device_memory"};
  }
  if (trouble = TextOf(found, "codecTrouble"); !trouble.empty()) {
    return {Verdict::kBad, "gpu", text + ", but " + trouble,
            "build for this card: ./x build cuda after cmake --preset cuda "
            "-DCMAKE_CUDA_ARCHITECTURES=native"};
  }
  return {Verdict::kGood, "gpu", text, ""};
}

Finding JudgeStart(const std::string& program, const std::string& written) {
  constexpr std::string_view kLoader = "error while loading shared libraries: ";
  const std::size_t found = written.find(kLoader);
  if (found == std::string::npos) {
    return {Verdict::kBad, program, "does not start", "run " + program + " --version: it says why"};
  }
  const std::size_t first = found + kLoader.size();
  const std::string library = written.substr(first, written.find(':', first) - first);
  const bool of_cuda = library.starts_with("libcu") || library.starts_with("libnv") ||
                       library.starts_with("libnccl") || library.starts_with("libtorch_cuda");
  return {Verdict::kBad, program, "does not start: " + library + " is missing",
          of_cuda ? "./x setup cuda fetches what CUDA builds need"
                  : "./x setup installs what shoal needs"};
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
