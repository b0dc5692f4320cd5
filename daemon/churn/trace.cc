#include "daemon/churn/trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "common/nesting.h"
#include "common/text.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kShownMax = 40;  // of a wrong line

Status AtLine(std::size_t line, const std::string& what) {
  return InvalidArgument("line " + std::to_string(line) + ": " + what);
}

// What is there while a trace is read.
class Reader {
 public:
  explicit Reader(std::uint64_t seed) : random_(seed), any_(seed > 0) {}

  std::size_t there() const { return there_.size(); }
  // The machine's number.
  std::uint32_t Come(Duration at) {
    const std::uint32_t machine = trace_.machines++;
    trace_.events.push_back({at, true, machine});
    there_.push_back(machine);
    return machine;
  }
  void Go(Duration at, std::uint32_t machine) {
    std::erase(there_, machine);
    trace_.events.push_back({at, false, machine});
  }
  void GoOne(Duration at) {
    const std::size_t index = any_ ? random_() % there_.size() : 0;
    Go(at, there_[index]);
  }
  bool full() const { return trace_.events.size() >= kTraceEventsMax; }
  ChurnTrace Take(Duration length, std::uint32_t named) {
    trace_.length = length;
    trace_.named = named;
    return std::move(trace_);
  }

 private:
  std::mt19937_64 random_;
  const bool any_;
  ChurnTrace trace_;
  std::vector<std::uint32_t> there_;  // in order of coming
};

struct EventLine {
  std::uint64_t at_ms = 0;
  bool comes = true;
  std::string node;
};

Result<EventLine> ParseLine(std::string_view text, std::size_t line) {
  const std::size_t first = text.find(',');
  const std::size_t second = first == text.npos ? text.npos : text.find(',', first + 1);
  if (second == text.npos || text.find(',', second + 1) != text.npos) {
    return AtLine(line, "'" + CleanText(text, kShownMax) +
                            "' is not milliseconds,add,node or milliseconds,remove,node");
  }
  EventLine event;
  const char* const end = text.data() + first;
  const auto [stop, error] = std::from_chars(text.data(), end, event.at_ms);
  const auto most = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(kTraceLengthMax).count());
  if (error != std::errc() || stop != end || event.at_ms > most) {
    return AtLine(line, "'" + CleanText(text.substr(0, first), kShownMax) +
                            "' is no number of milliseconds from 0 to " + std::to_string(most));
  }
  const std::string_view kind = text.substr(first + 1, second - first - 1);
  if (kind != "add" && kind != "remove") {
    return AtLine(line, "'" + CleanText(kind, kShownMax) + "' is neither add nor remove");
  }
  event.comes = kind == "add";
  event.node = text.substr(second + 1);
  if (event.node.empty() || event.node.size() > kTraceNameMax) {
    return AtLine(line, "a node's name has 1 to " + std::to_string(kTraceNameMax) + " characters");
  }
  return event;
}

}  // namespace

Result<ChurnTrace> ParseEventTrace(std::string_view text) {
  Reader reader(0);
  std::map<std::string, std::uint32_t> there;
  std::set<std::string> names;
  std::uint64_t last = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    SHOAL_ASSIGN_OR_RETURN(const EventLine event, ParseLine(text.substr(0, end), line));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (event.at_ms < last) return AtLine(line, "comes before the line above it");
    if (reader.full()) {
      return AtLine(line, "more than " + std::to_string(kTraceEventsMax) + " events");
    }
    last = event.at_ms;
    const Duration at = std::chrono::milliseconds(event.at_ms);
    const auto found = there.find(event.node);
    if (event.comes == (found != there.end())) {
      return AtLine(line, "node " + CleanText(event.node, kTraceNameMax) +
                              (event.comes ? " is there already" : " is not there"));
    }
    if (!event.comes) {
      reader.Go(at, found->second);
      there.erase(found);
      continue;
    }
    if (there.size() >= kTraceMachinesMax) {
      return AtLine(line, "more than " + std::to_string(kTraceMachinesMax) + " machines at once");
    }
    there[event.node] = reader.Come(at);
    names.insert(event.node);
  }
  if (names.empty()) return InvalidArgument("the trace has no event");
  return reader.Take(std::chrono::milliseconds(last), static_cast<std::uint32_t>(names.size()));
}

Result<ChurnTrace> ParseCountTrace(std::string_view text, std::uint64_t seed) {
  const auto json = ParseJson<nlohmann::json>(text);
  const auto is_object = [](const nlohmann::json& value, const char* key) {
    return value.is_object() && value.contains(key);
  };
  if (!is_object(json, "data") || !json["data"].is_array() || !is_object(json, "metadata") ||
      !is_object(json["metadata"], "gap_seconds") || !json["metadata"]["gap_seconds"].is_number()) {
    return InvalidArgument(
        "the trace is not {\"metadata\": {\"gap_seconds\": ...}, \"data\": [...]}");
  }
  const auto& data = json["data"];
  const double gap = json["metadata"]["gap_seconds"].get<double>();
  const double length = gap * static_cast<double>(data.size());
  if (data.empty() || data.size() > kTraceTicksMax || !(gap > 0) ||
      !(length <= std::chrono::duration<double>(kTraceLengthMax).count())) {
    return InvalidArgument("a trace has 1 to " + std::to_string(kTraceTicksMax) +
                           " counts at distances above 0, and lasts a year at most");
  }
  const auto step = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(gap));
  Reader reader(seed);
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::string name = "data[" + std::to_string(i) + "]";
    if (!data[i].is_number_unsigned() || data[i].get<std::uint64_t>() > kTraceMachinesMax) {
      return InvalidArgument(name + " is no whole number from 0 to " +
                             std::to_string(kTraceMachinesMax));
    }
    const auto count = data[i].get<std::uint64_t>();
    most = std::max(most, count);
    const Duration at = step * static_cast<std::int64_t>(i);
    while (reader.there() != count) {
      if (reader.full()) {
        return InvalidArgument(name + ": more than " + std::to_string(kTraceEventsMax) + " events");
      }
      reader.there() < count ? (void)reader.Come(at) : reader.GoOne(at);
    }
  }
  if (most == 0) return InvalidArgument("the trace has no machine");
  return reader.Take(step * static_cast<std::int64_t>(data.size()),
                     static_cast<std::uint32_t>(most));
}

Result<ChurnTrace> ParseTrace(std::string_view text, std::uint64_t seed) {
  return text.starts_with('{') ? ParseCountTrace(text, seed) : ParseEventTrace(text);
}

Result<ChurnTrace> MakeSteadyTrace(const SteadyChurn& churn) {
  if (churn.machines == 0 || churn.machines > kTraceMachinesMax) {
    return InvalidArgument("from 1 to " + std::to_string(kTraceMachinesMax) + " machines");
  }
  const bool times = churn.kill_every > Duration::zero() && churn.warm_up >= Duration::zero() &&
                     churn.back_after >= Duration::zero() && churn.length > Duration::zero();
  if (!times || churn.length / churn.kill_every > static_cast<std::int64_t>(kTraceEventsMax / 2) ||
      churn.length + churn.warm_up > kTraceLengthMax) {
    return InvalidArgument("deaths come at distances above 0, and " +
                           std::to_string(kTraceEventsMax / 2) + " at most");
  }
  Reader reader(std::max<std::uint64_t>(churn.seed, 1));
  for (std::uint32_t i = 0; i < churn.machines; ++i) reader.Come(Duration::zero());
  const Duration end = churn.warm_up + churn.length;
  std::multiset<Duration> back;
  for (Duration at = churn.warm_up + churn.kill_every; at <= end; at += churn.kill_every) {
    for (; !back.empty() && *back.begin() <= at; back.erase(back.begin())) {
      reader.Come(*back.begin());
    }
    if (reader.there() == 0) break;
    reader.GoOne(at);
    if (churn.back_after > Duration::zero()) back.insert(at + churn.back_after);
  }
  ChurnTrace trace = reader.Take(end, churn.machines);
  trace.measured_from = churn.warm_up;
  return trace;
}

ChurnTrace Compress(ChurnTrace trace, double factor) {
  const auto shorter = [factor](Duration duration) {
    return Duration(std::llround(static_cast<double>(duration.count()) / factor));
  };
  for (ChurnEvent& event : trace.events) event.at = shorter(event.at);
  trace.length = shorter(trace.length);
  trace.measured_from = shorter(trace.measured_from);
  return trace;
}

double WholePipelines(const ChurnTrace& trace, std::uint32_t stages, std::uint32_t pipelines,
                      Duration fetch) {
  double all = 0, whole = 0;
  std::set<std::uint32_t> there, ready;
  std::multimap<Duration, std::uint32_t> fetching;  // machines, by when they have a stage
  bool began = false;
  Duration last = trace.measured_from;
  const auto spend = [&](Duration until) {
    if (until <= last) return;
    const double seconds = std::chrono::duration<double>(until - last).count();
    const auto filled = static_cast<std::uint32_t>(ready.size() / stages);
    all += static_cast<double>(there.size()) * seconds;
    whole += stages * std::min(filled, pipelines) * seconds;
    last = until;
  };
  const auto spend_to = [&](Duration until) {
    for (; !fetching.empty() && fetching.begin()->first <= until;
         fetching.erase(fetching.begin())) {
      spend(fetching.begin()->first);
      if (there.contains(fetching.begin()->second)) ready.insert(fetching.begin()->second);
    }
    spend(until);
  };
  for (const ChurnEvent& event : trace.events) {
    spend_to(event.at);
    if (event.comes) {
      there.insert(event.machine);
      began ? static_cast<void>(fetching.emplace(event.at + fetch, event.machine))
            : static_cast<void>(ready.insert(event.machine));
      began = began || there.size() >= stages;
    } else {
      there.erase(event.machine);
      ready.erase(event.machine);
    }
  }
  spend_to(trace.length);
  return all > 0 ? whole / all : 0;
}

}  // namespace shoal::daemon
