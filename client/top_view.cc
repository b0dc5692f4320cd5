#include "client/top_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

#include "client/base/terminal.h"
#include "client/stage_time_view-inl.h"
#include "client/status_text-inl.h"
#include "common/units.h"

namespace shoal::client {
namespace {

constexpr std::size_t kLabel = 10;   // cells of the names of rows
constexpr std::size_t kWidest = 40;  // cells of bars and curves
constexpr const char* kKeys = "q quits this view, not the training; arrows scroll";

using Lines = std::vector<std::string>;

std::string Labelled(std::string label, const std::string& text) {
  label.resize(std::max(kLabel, label.size()), ' ');
  return label + text;
}

std::size_t Room(std::size_t columns) {
  return std::min(kWidest, columns > kLabel + 30 ? columns - kLabel - 30 : std::size_t{8});
}

// Words, broken before the last column; what follows is indented like the first line's text.
void AddWrapped(const std::string& label, const std::string& text, std::size_t columns,
                Lines* lines) {
  const std::size_t width = columns > kLabel + 10 ? columns - kLabel : std::size_t{10};
  std::string line, name = label;
  const auto flush = [&] {
    lines->push_back(Labelled(name, line));
    name.clear();
    line.clear();
  };
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (!line.empty() && line.size() + 1 + end - begin > width) flush();
    line += (line.empty() ? "" : " ") + text.substr(begin, end - begin);
    begin = end + 1;
  }
  if (!line.empty()) flush();
}

void AddRun(const Json& swarm, const Json& work, std::size_t columns, Lines* lines) {
  if (Text(swarm, "name").empty()) return;
  AddWrapped("run",
             Text(swarm, "name") + ", " + Text(swarm, "state") +
                 (Text(swarm, "reason").empty() ? "" : ": " + Text(swarm, "reason")),
             columns, lines);
  const std::uint64_t step = Whole(swarm, "step"), target = Whole(swarm, "targetStep");
  std::string steps = "step " + std::to_string(step);
  if (target > 0) {
    steps = Bar(static_cast<double>(step) / static_cast<double>(target),
                static_cast<int>(Room(columns))) +
            " " + steps + " of " + std::to_string(target);
  }
  lines->push_back(Labelled("progress", steps));
  std::string loss = Sparkline(Losses(At(swarm, "losses")), Room(columns));
  if (Number(swarm, "loss") > 0) {
    loss += (loss.empty() ? "" : " ") + Decimal("%.4f", Number(swarm, "loss"));
  }
  if (!loss.empty()) lines->push_back(Labelled("loss", loss));
  if (const std::string held_out = HeldOutText(swarm); !held_out.empty()) {
    AddWrapped("held out", held_out, columns, lines);
  }
  if (Number(work, "samplesPerSecond") > 0) {
    lines->push_back(Labelled("pace", Decimal("%.1f samples/s", Number(work, "samplesPerSecond"))));
  }
}

// "[####....] 4.1 Mbit/s of 20 Mbit/s".
std::string RateLine(double rate, std::uint64_t cap, std::size_t columns) {
  if (cap == 0) return RateText(rate) + ", no cap";
  return Bar(rate / static_cast<double>(cap),
             static_cast<int>(std::min(Room(columns), kWidest / 2))) +
         " " + RateText(rate) + " of " + FormatRate(BitsPerSecond{cap});
}

std::string Megabits(const Json& link, const char* key) {
  return Decimal("%.2f", Number(link, key) / 1e6);
}

void AddLinks(const Json& status, std::size_t columns, Lines* lines) {
  double up = 0, down = 0;
  std::vector<Row> rows = {{"link", "peer", "Mbit/s up", "down", "ratio", "rtt"}};
  for (const Json& link : List(status, "links")) {
    up += Number(link, "upBps");
    down += Number(link, "downBps");
    rows.push_back({Clipped(Text(link, "channel"), 14), Clipped(Text(link, "name"), 10),
                    At(link, "connected") == true ? Megabits(link, "upBps") : "dialling",
                    Megabits(link, "downBps"),
                    Number(link, "ratio") > 0 ? Decimal("%.1fx", Number(link, "ratio")) : "-",
                    Number(link, "rttMs") > 0 ? Decimal("%.0f ms", Number(link, "rttMs")) : "-"});
  }
  const Json& limits = At(status, "limits");
  lines->push_back(Labelled("upload", RateLine(up, Whole(limits, "upBps"), columns)));
  lines->push_back(Labelled("download", RateLine(down, Whole(limits, "downBps"), columns)));
  if (rows.size() == 1) return;
  lines->push_back("");
  const std::string table = FormatTable(rows);
  for (std::size_t begin = 0; begin < table.size();) {
    const std::size_t end = table.find('\n', begin);
    const std::string line = table.substr(begin, end - begin);
    lines->push_back(begin == 0 ? Bold(line) : line);
    begin = end + 1;
  }
}

void AddStage(const Json& status, std::size_t columns, Lines* lines) {
  const Json& role = At(status, "role");
  std::string text = "none";
  if (role.is_object()) {
    text = "stage " + std::to_string(Whole(role, "stage")) + " (of " +
           std::to_string(Whole(role, "stages")) + "), pipeline " +
           std::to_string(Whole(role, "pipeline")) + " (of " +
           std::to_string(Whole(role, "pipelines")) + ")";
  }
  if (!Text(status, "device").empty()) text += ", on " + Text(status, "device");
  AddWrapped("role", text, columns, lines);
  if (const std::string gpu = GpuText(At(status, "gpu")); !gpu.empty()) {
    AddWrapped("GPU", gpu, columns, lines);
  }
  const Json& fetch = At(status, "fetch");
  if (Whole(fetch, "totalBytes") > Whole(fetch, "doneBytes")) {
    const double part = Number(fetch, "doneBytes") / Number(fetch, "totalBytes");
    lines->push_back(Labelled("fetch", Bar(part, static_cast<int>(Room(columns))) + " of " +
                                           FormatBytes(Whole(fetch, "totalBytes"))));
  }
  if (const StageTime time = StageTimeOf(status); time.total_ms > 0) {
    std::string computes = Bar(ComputePercent(time) / 100, static_cast<int>(Room(columns))) + " " +
                           WholePercent(ComputePercent(time));
    if (const std::string wait = LongestWait(status); !wait.empty()) computes += ", waits: " + wait;
    lines->push_back(Labelled("computes", computes));
  }
  const Json& store = At(status, "deltaStore");
  if (Whole(store, "records") > 0) {
    lines->push_back(Labelled("deltas", FormatBytes(Whole(store, "bytes")) + " of " +
                                            FormatBytes(Whole(store, "limit"))));
  }
}

Lines Body(const Json& status, std::size_t columns) {
  Lines lines;
  for (const Json& reason : List(status, "stateReasons")) {
    if (reason.is_string()) {
      AddWrapped("why", Printable(reason.get_ref<const std::string&>()), columns, &lines);
    }
  }
  AddRun(At(status, "swarm"), At(status, "work"), columns, &lines);
  AddStage(status, columns, &lines);
  AddLinks(status, columns, &lines);
  for (const Json& item : List(status, "health")) {
    lines.push_back("");
    AddWrapped(Text(item, "severity"), Text(item, "text") + "; " + Text(item, "fix"), columns,
               &lines);
  }
  return lines;
}

std::string Headline(const Json& status) {
  std::string text = Bold(Text(status, "name")) + "  " + StateText(Text(status, "state"));
  const std::uint64_t time_ms = Whole(status, "time"), since_ms = Whole(status, "since");
  if (since_ms > 0 && time_ms > since_ms) {
    text += " for " + MillisecondsText(static_cast<double>(time_ms - since_ms));
  }
  return text;
}

}  // namespace

std::vector<std::string> TopFrame(const std::string& status_json, const Status& asked,
                                  std::size_t columns, std::size_t rows, std::size_t scrolled) {
  Lines lines, body;
  const Result<Json> status =
      asked.ok() ? ParseObject(status_json, "the status") : Result<Json>(asked);
  if (status.ok()) {
    lines.push_back(Headline(*status));
    body = Body(*status, columns);
  } else {
    lines.push_back(Red("shoald does not answer"));
    AddWrapped("why", Printable(status.status().message()), columns, &body);
  }
  if (rows < 3)
    return {lines.begin(), lines.begin() + static_cast<int>(std::min<std::size_t>(rows, 1))};
  const std::size_t room = rows - 2;
  const std::size_t first = body.size() > room ? std::min(scrolled, body.size() - room) : 0;
  for (std::size_t i = first; i < std::min(body.size(), first + room); ++i) {
    lines.push_back(body[i]);
  }
  lines.resize(rows - 1);
  lines.emplace_back(
      body.size() > room ? std::to_string(body.size() - room) + " lines more; " + kKeys : kKeys);
  for (std::string& line : lines) line = Clipped(line, columns);
  return lines;
}

}  // namespace shoal::client
