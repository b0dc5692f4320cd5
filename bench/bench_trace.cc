#include "bench/bench_trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

#include "common/file.h"
#include "common/nesting.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kTraceBytesMax = 1ull << 30;

struct PeerTrace {
  Json events = Json::array();  // of the step, and the names of threads
  double first_forward = std::numeric_limits<double>::infinity();
};

double Time(const Json& event) { return event.value("ts", 0.0); }

Result<PeerTrace> ReadTrace(const std::string& path, std::uint64_t step) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTraceBytesMax));
  const Json json = ParseJson<Json>(text);
  if (!json.is_object() || !json.contains("traceEvents") || !json["traceEvents"].is_array()) {
    return DataLoss(path + " is no trace");
  }
  PeerTrace trace;
  for (const Json& event : json["traceEvents"]) {
    if (event.value("ph", "") == "M") {
      if (event.value("name", "") == "thread_name") trace.events.push_back(event);
      continue;
    }
    const Json args = event.value("args", Json::object());
    if (args.value("step", std::uint64_t{0}) != step) continue;
    if (event.value("name", "") == "mb.forward") {
      trace.first_forward = std::min(trace.first_forward, Time(event));
    }
    trace.events.push_back(event);
  }
  return trace;
}

}  // namespace

Status MergeTraces(const std::vector<std::string>& files, std::uint64_t step,
                   const std::string& output) {
  std::vector<PeerTrace> peers;
  for (const std::string& file : files) {
    SHOAL_ASSIGN_OR_RETURN(PeerTrace trace, ReadTrace(file, step));
    peers.push_back(std::move(trace));
  }
  // A step's first micro-batch reaches the stages in their order.
  std::stable_sort(peers.begin(), peers.end(), [](const PeerTrace& a, const PeerTrace& b) {
    return a.first_forward < b.first_forward;
  });
  double begin = std::numeric_limits<double>::infinity();
  for (const PeerTrace& peer : peers) begin = std::min(begin, peer.first_forward);
  Json merged = Json::array();
  for (std::size_t stage = 0; stage < peers.size(); ++stage) {
    const std::size_t process = stage + 1;
    merged.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", process},
                      {"args", {{"name", "stage " + std::to_string(stage)}}}});
    merged.push_back({{"name", "process_sort_index"},
                      {"ph", "M"},
                      {"pid", process},
                      {"args", {{"sort_index", process}}}});
    for (Json& event : peers[stage].events) {
      event["pid"] = process;
      // What was read ahead while the step before ran would stretch the picture.
      if (event.contains("ts") && Time(event) < begin) continue;
      if (event.contains("ts")) event["ts"] = Time(event) - begin;
      if (event.value("ph", "") == "i") event["s"] = "t";
      merged.push_back(std::move(event));
    }
  }
  return WriteFileAtomic(output, Json{{"traceEvents", std::move(merged)}}.dump() + "\n");
}

}  // namespace shoal::bench
