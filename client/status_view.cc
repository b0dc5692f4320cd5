#include "client/status_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/terminal.h"
#include "common/nesting.h"
#include "common/units.h"
#include "net/http/status_fields.h"

namespace shoal::client {
namespace {

using Json = nlohmann::json;
using Row = std::vector<std::string>;

constexpr std::uint64_t kLongest_ms = 1000ull * 3600 * 24 * 10'000;

const Json& At(const Json& json, const char* key) {
  static const Json nothing;
  if (!json.is_object()) return nothing;
  const auto found = json.find(key);
  return found == json.end() ? nothing : *found;
}

// A row's name in front of what it says.
std::string RowName(const char* path) { return "  " + net::PeerLabel(path); }

std::string Text(const Json& json, const char* key) {
  const Json& value = At(json, key);
  return value.is_string() ? Printable(value.get_ref<const std::string&>()) : "";
}

double Number(const Json& json, const char* key) {
  const Json& value = At(json, key);
  return value.is_number() ? value.get<double>() : 0;
}

// What a double holds of a count; foreign numbers outside of it become its borders.
std::uint64_t ToWhole(double value) {
  constexpr double kMost = 9e18;
  return value > 0 ? static_cast<std::uint64_t>(std::min(value, kMost)) : 0;
}

std::uint64_t Whole(const Json& json, const char* key) { return ToWhole(Number(json, key)); }

// The elements of a list; of anything else none.
const Json& List(const Json& json, const char* key) {
  static const Json none = Json::array();
  const Json& value = At(json, key);
  return value.is_array() ? value : none;
}

std::string Decimal(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string RateText(double bits_per_second) {
  if (bits_per_second < 1) return "-";
  return FormatRate(BitsPerSecond{ToWhole(bits_per_second)});
}

std::string CapText(const Json& limits, const char* key) {
  const std::uint64_t cap = Whole(limits, key);
  return cap == 0 ? "no cap" : "cap " + FormatRate(BitsPerSecond{cap});
}

std::string StateText(const std::string& state) {
  if (state == "training" || state == "finished") return Green(state);
  if (state == "stopped" || state == "failed") return Red(state);
  return Yellow(state);
}

// "training since 3m 20s", and why when there is a reason.
std::string PeerHeadline(const Json& json) {
  std::string text = Bold(Text(json, "name")) + "  " + StateText(Text(json, "state"));
  const std::uint64_t time_ms = Whole(json, "time");
  const std::uint64_t since_ms = Whole(json, "since");
  if (since_ms > 0 && time_ms > since_ms) {
    const std::uint64_t held_ms = std::min<std::uint64_t>(time_ms - since_ms, kLongest_ms);
    text += " for " + FormatDuration(std::chrono::milliseconds(held_ms));
  }
  for (const Json& reason : List(json, "stateReasons")) {
    if (reason.is_string()) text += ": " + Printable(reason.get_ref<const std::string&>());
  }
  return text + "\n";
}

std::string TrainingLine(const Json& swarm, const Json& work) {
  std::string text = "step " + std::to_string(Whole(swarm, "step"));
  if (Whole(swarm, "targetStep") > 0) text += " of " + std::to_string(Whole(swarm, "targetStep"));
  if (Number(swarm, "targetEpochs") > 0) {
    text += ", epoch " + Decimal("%.1f", Number(swarm, "epochs")) + " of " +
            Decimal("%.1f", Number(swarm, "targetEpochs"));
  }
  if (Number(swarm, "loss") > 0) text += ", loss " + Decimal("%.4f", Number(swarm, "loss"));
  if (Number(work, "samplesPerSecond") > 0) {
    text += ", " + Decimal("%.1f samples/s", Number(work, "samplesPerSecond"));
  }
  return text;
}

// "pipelines 0, 1", whose peers of the stage share a LAN and add up there first; "" if none do.
std::string LanText(const Json& role) {
  std::string text;
  for (const Json& pipeline : List(role, "lan")) {
    if (!pipeline.is_number()) continue;
    text += (text.empty() ? "pipelines " : ", ") + std::to_string(ToWhole(pipeline.get<double>()));
  }
  return text;
}

// Stages, pipelines and layers count from 0, as in the log and in the reasons.
std::string RoleText(const Json& role) {
  if (!role.is_object()) return "none";
  const Json& layers = At(role, "layers");
  std::string text = "stage " + std::to_string(Whole(role, "stage")) + " (of " +
                     std::to_string(Whole(role, "stages")) + "), pipeline " +
                     std::to_string(Whole(role, "pipeline")) + " (of " +
                     std::to_string(Whole(role, "pipelines")) + ")";
  if (layers.is_array() && layers.size() == 2 && layers[0].is_number() && layers[1].is_number()) {
    text += ", layers " + std::to_string(ToWhole(layers[0].get<double>())) + " to " +
            std::to_string(std::max<std::uint64_t>(ToWhole(layers[1].get<double>()), 1) - 1);
  }
  return text;
}

std::string TrafficTable(const Json& traffic) {
  std::vector<Row> rows = {{"  traffic", "sent", "received", "as fp32", "ratio"}};
  for (const char* kind : {"forward", "backward", "replica"}) {
    const Json& bytes = At(traffic, kind);
    const std::uint64_t raw = Whole(bytes, "rawSentBytes") + Whole(bytes, "rawReceivedBytes");
    if (raw == 0) continue;
    rows.push_back({std::string("  ") + kind, FormatBytes(Whole(bytes, "wireSentBytes")),
                    FormatBytes(Whole(bytes, "wireReceivedBytes")), FormatBytes(raw),
                    Decimal("%.1fx", Number(bytes, "ratio"))});
  }
  const Json& control = At(traffic, "control");
  rows.push_back({"  control", FormatBytes(Whole(control, "wireSentBytes")),
                  FormatBytes(Whole(control, "wireReceivedBytes")), "", ""});
  return FormatTable(rows);
}

std::string DeltaStoreText(const Json& store) {
  if (Whole(store, "records") == 0) return "empty";
  std::string text = FormatBytes(Whole(store, "bytes")) + " in " +
                     std::to_string(Whole(store, "records")) + " samples";
  if (Whole(store, "limit") > 0) text += " (quota " + FormatBytes(Whole(store, "limit")) + ")";
  const std::uint64_t looked = Whole(store, "hits") + Whole(store, "misses");
  if (looked > 0) {
    text += ", " + Decimal("%.0f %% hits", 100.0 * static_cast<double>(Whole(store, "hits")) /
                                               static_cast<double>(looked));
  }
  return text;
}

std::string PercentText(const Json& json, const char* key) {
  const double percent = 100 * Number(json, key);
  return Decimal(percent >= 10 ? "%.0f %%" : percent >= 1 ? "%.1f %%" : "%.2f %%", percent);
}

// Of gradients that travel as low rank; "" where none do.
std::string LowRankText(const Json& low_rank) {
  const std::uint64_t messages = Whole(low_rank, "messages");
  if (messages == 0) return "";
  std::string text = PercentText(low_rank, "part") + " of " + std::to_string(messages) +
                     " gradients low rank (" + Decimal("%.2f", Number(low_rank, "bitsPerValue")) +
                     " bits a value, others " +
                     Decimal("%.2f", Number(low_rank, "otherBitsPerValue")) + ")";
  if (!At(low_rank, "lazy").is_boolean()) return text;
  text += At(low_rank, "lazy").get<bool>() ? ", what they leave out goes on with the next one"
                                           : ", what they leave out is dropped";
  if (!At(low_rank, "correlation").is_number()) return text;
  return text + Decimal(" (activations alike by %.2f)", Number(low_rank, "correlation"));
}

// What one end of a boundary measures, in words; "" as long as it is nothing.
std::string BoundaryText(const Json& end) {
  const std::string mode = Text(end, "mode");
  std::vector<std::string> parts;
  if (mode == "full") parts.push_back("whole activations, as changes are too large");
  if (mode == "wide delta") parts.push_back("changes with twice the bits, as they are large");
  if (At(end, "relativeDelta").is_number()) {
    parts.push_back("samples change by " + PercentText(end, "relativeDelta") + " (last " +
                    PercentText(end, "lastRelativeDelta") + ")");
  }
  for (const auto& [key, what] :
       {std::pair{"forwardError", "activations"}, std::pair{"backwardError", "gradients"}}) {
    if (!At(end, key).is_number()) continue;
    parts.push_back(std::string(what) + " sent with error " + PercentText(end, key));
  }
  if (const std::string low_rank = LowRankText(At(end, "lowRank")); !low_rank.empty()) {
    parts.push_back(low_rank);
  }
  const std::uint64_t hits = Whole(end, "deltaHits");
  const std::uint64_t first = Whole(end, "firstVisits");
  if (hits + first > 0) {
    parts.push_back(std::to_string(hits) + " changes, " + std::to_string(first) + " first visits");
  }
  if (const std::uint64_t again = Whole(end, "resends"); again > 0) {
    parts.push_back(std::to_string(again) + " sent again in full");
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

// Milliseconds by use, and in all.
struct StageTime {
  std::map<std::string, double> ms;
  double total = 0;

  double Percent(const std::string& use) const {
    const auto found = ms.find(use);
    return found == ms.end() || total <= 0 ? 0 : 100 * found->second / total;
  }
};

StageTime StageTimeOf(const Json& status) {
  StageTime time;
  for (const Json& part : List(At(status, "work"), "time")) {
    const double ms = std::clamp(Number(part, "ms"), 0.0, 1e15);
    time.ms[Text(part, "activity")] += ms;
    time.total += ms;
  }
  return time;
}

// The neighbour across a boundary, as the link to it names it.
std::string NeighbourName(const Json& status, std::int64_t boundary, const char* otherwise) {
  const std::string channel = "boundary/" + std::to_string(Whole(At(status, "role"), "pipeline")) +
                              "/" + std::to_string(boundary);
  for (const Json& link : List(status, "links")) {
    if (Text(link, "channel") == channel) return Text(link, "name");
  }
  return otherwise;
}

std::string Awaited(const Json& status, const std::string& use) {
  const auto stage = static_cast<std::int64_t>(Whole(At(status, "role"), "stage"));
  if (use == "wait_input") return NeighbourName(status, stage - 1, "the stage before");
  if (use == "wait_gradient") return NeighbourName(status, stage, "the next stage");
  if (use == "wait_codec") return "own codec";
  if (use == "wait_store") return "own store";
  if (use == "exchange") return "exchange of gradients";
  return "end of step";
}

constexpr const char* kComputes[] = {"forward", "backward_input", "backward_weights", "optimizer"};
constexpr const char* kWaits[] = {"wait_input", "wait_gradient", "wait_codec",
                                  "wait_store", "exchange",      "wait_step"};

double ComputePercent(const StageTime& time) {
  double percent = 0;
  for (const char* use : kComputes) percent += time.Percent(use);
  return percent;
}

std::string WholePercent(double percent) { return Decimal("%.0f %%", percent); }

// Where a stage's time went, in two rows; none before there is any.
std::vector<Row> TimeRows(const Json& status) {
  const StageTime time = StageTimeOf(status);
  if (time.total <= 0) return {};
  std::string computes = WholePercent(ComputePercent(time)) + " of the time:";
  for (const char* use : kComputes) {
    computes += (use == kComputes[0] ? " " : ", ") + net::PeerLabel("work.time[].activity", use) +
                " " + Decimal("%.0f", time.Percent(use));
  }
  std::string waits;
  for (const std::string use : kWaits) {
    if (time.Percent(use) < 0.5) continue;
    const char* const what = use == "wait_input"      ? "activations of "
                             : use == "wait_gradient" ? "gradients of "
                                                      : "";
    waits += (waits.empty() ? "" : ", ") + (what + Awaited(status, use)) + " " +
             WholePercent(time.Percent(use));
  }
  return {{"  computes", computes}, {"  waits for", waits.empty() ? "nothing" : waits}};
}

std::string MillisecondsText(double ms) {
  return FormatDuration(std::chrono::milliseconds(ToWhole(std::min(ms, 1e15))));
}

std::string Plural(std::uint64_t count, const char* one, const char* ending) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : ending);
}

// "6.3s, 6.2s without bounds"; "" before anything was measured. What simulates a step leaves the
// micro-batches out that are more than `kSimulated`.
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

// W waits in the schedule zero-bubble only.
bool PutsWeightsOff(const Json& work) { return Text(work, "schedule") != "1f1b"; }

// The order of work in use and its bounds, in a row; none before the first step.
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

// The longest wait in few words: "attic 18 %".
std::string LongestWait(const Json& status) {
  const StageTime time = StageTimeOf(status);
  const char* longest = kWaits[0];
  for (const char* use : kWaits) {
    if (time.Percent(use) > time.Percent(longest)) longest = use;
  }
  if (time.Percent(longest) < 0.5) return "-";
  return Awaited(status, longest) + " " + WholePercent(time.Percent(longest));
}

// Part of the stage's time in which a link had something to send.
std::string LinkBusy(const Json& link, const StageTime& time) {
  if (time.total <= 0) return "-";
  const double busy_ms = Number(link, "stallRateLimitMs") + Number(link, "stallNetworkMs");
  return WholePercent(std::clamp(100 * busy_ms / time.total, 0.0, 100.0));
}

std::string LinkTable(const Json& status) {
  const Json& links = At(status, "links");
  const StageTime time = StageTimeOf(status);
  if (!links.is_array() || links.empty()) return "";
  const auto of = [](const char* name) { return net::PeerLabel(std::string("links[].") + name); };
  std::vector<Row> rows = {{RowName("links[]"), of("name"), of("upBps"), of("downBps"), of("ratio"),
                            of("sentWireBytes"), of("receivedWireBytes"), of("rttMs"), "busy",
                            of("queueBytes")}};
  for (const Json& link : links) {
    rows.push_back({"  " + Text(link, "channel"), Text(link, "name"),
                    At(link, "connected") == true ? RateText(Number(link, "upBps")) : "connecting",
                    RateText(Number(link, "downBps")),
                    Number(link, "ratio") > 0 ? Decimal("%.1fx", Number(link, "ratio")) : "-",
                    FormatBytes(Whole(link, "sentWireBytes")),
                    FormatBytes(Whole(link, "receivedWireBytes")),
                    Number(link, "rttMs") > 0 ? Decimal("%.1f ms", Number(link, "rttMs")) : "-",
                    LinkBusy(link, time), FormatBytes(Whole(link, "queueBytes"))});
  }
  return FormatTable(rows);
}

// What somebody should look at, each said once, with the names of those who say it.
std::string HealthLines(const std::vector<std::pair<std::string, const Json*>>& statuses) {
  std::vector<std::pair<std::string, std::string>> said;  // text, names
  for (const auto& [name, status] : statuses) {
    for (const Json& item : List(*status, "health")) {
      const std::string text = Yellow(Text(item, "severity")) + ": " + Text(item, "text") + "; " +
                               Text(item, "fix") + "\n";
      const auto same = std::find_if(said.begin(), said.end(),
                                     [&](const auto& entry) { return entry.first == text; });
      if (same == said.end()) {
        said.emplace_back(text, name);
      } else {
        same->second += ", " + name;
      }
    }
  }
  std::string lines;
  for (const auto& [text, names] : said) {
    lines += "  " + (names.empty() ? "" : names + ", ") + text;
  }
  return lines;
}

std::vector<double> Losses(const Json& list) {
  std::vector<double> values;
  if (!list.is_array()) return values;
  for (const Json& item : list) {
    if (item.is_number()) values.push_back(item.get<double>());
    if (item.is_array() && item.size() == 2 && item[1].is_number()) {
      values.push_back(item[1].get<double>());
    }
  }
  return values;
}

Result<Json> Parse(const std::string& text) {
  Json json = ParseJson<Json>(text);
  if (!json.is_object())
    return DataLoss("the status is not a JSON object; are both programs of the same version?");
  return json;
}

// What members are called; names are chosen by their owners, so where two are alike, the id tells
// them apart.
std::vector<std::string> MemberNames(const Json& run_status) {
  std::map<std::string, int> count;
  for (const Json& member : List(run_status, "members")) ++count[Text(member, "name")];
  std::vector<std::string> names;
  for (const Json& member : List(run_status, "members")) {
    std::string name = Text(member, "name");
    if (count[name] > 1) name += " (" + Text(member, "peer").substr(0, 8) + ")";
    names.push_back(std::move(name));
  }
  return names;
}

std::string MemberState(const Json& member) {
  const bool connected = At(member, "connected") == true;
  return connected ? StateText(Text(member, "state")) : Red("gone");
}

std::string MemberPlace(const Json& member) {
  const Json& stage = At(member, "stage");
  if (!stage.is_number() || stage.get<double>() < 0) return "spare";
  const std::string place = "stage " + std::to_string(Whole(member, "stage")) + ", pipeline " +
                            std::to_string(Whole(member, "pipeline"));
  const std::string lan = LanText(At(At(member, "status"), "role"));
  return lan.empty() ? place : place + " (LAN of " + lan + ")";
}

std::string MemberTable(const Json& run_status) {
  std::vector<Row> members = {
      {"  " + net::RunLabel("members[].name"), net::RunLabel("members[].peer"), "place",
       net::RunLabel("members[].state"), net::PeerLabel("links[].upBps"),
       net::PeerLabel("links[].downBps"), net::PeerLabel("traffic.sentWireBytes"),
       net::PeerLabel("links[].ratio")}};
  for (const Json& member : List(run_status, "members")) {
    const Json& status = At(member, "status");
    double up = 0;
    double down = 0;
    for (const Json& link : List(status, "links")) {
      up += Number(link, "upBps");
      down += Number(link, "downBps");
    }
    const Json& traffic = At(status, "traffic");
    double raw = 0;
    double wire = 0;
    for (const char* kind : {"forward", "backward", "replica"}) {
      raw += Number(At(traffic, kind), "rawSentBytes");
      wire += Number(At(traffic, kind), "wireSentBytes");
    }
    members.push_back({"  " + Text(member, "name"), Text(member, "peer").substr(0, 8),
                       MemberPlace(member), MemberState(member), RateText(up), RateText(down),
                       FormatBytes(Whole(traffic, "sentWireBytes")),
                       wire > 0 ? Decimal("%.1fx", raw / wire) : "-"});
  }
  return FormatTable(members);
}

// Where each stage's time goes, and its schedule; "" before any stage has worked.
std::string MemberTimeTable(const Json& run_status) {
  std::vector<Row> rows = {{"  " + net::RunLabel("members[].name"), "computes", "waits for",
                            net::PeerLabel("work.schedule"), net::PeerLabel("work.inFlightMax"),
                            net::PeerLabel("work.pendingWeightsMax"),
                            net::PeerLabel("work.simulatedMs")}};
  const std::vector<std::string> names = MemberNames(run_status);
  std::size_t number = 0;
  for (const Json& member : List(run_status, "members")) {
    const std::string& name = names[number++];
    const Json& status = At(member, "status");
    const StageTime time = StageTimeOf(status);
    if (time.total <= 0) continue;
    const Json& work = At(status, "work");
    const bool known = HasSchedule(status);
    const std::string simulated = known ? SimulatedText(work) : "";
    rows.push_back(
        {"  " + name, WholePercent(ComputePercent(time)), LongestWait(status),
         known ? Text(work, "schedule") : "-",
         known ? std::to_string(Whole(work, "inFlightMax")) : "-",
         known && PutsWeightsOff(work) ? std::to_string(Whole(work, "pendingWeightsMax")) : "-",
         simulated.empty() ? "-" : simulated});
  }
  return rows.size() > 1 ? FormatTable(rows) : "";
}

}  // namespace

Result<std::string> PeerView(const std::string& status_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, Parse(status_json));
  const Json& swarm = At(json, "swarm");
  std::string text = PeerHeadline(json);
  std::vector<Row> rows;
  if (!Text(swarm, "name").empty()) {
    std::string run = Text(swarm, "name") + ", " + StateText(Text(swarm, "state"));
    if (!Text(swarm, "reason").empty()) run += ": " + Text(swarm, "reason");
    rows.push_back({RowName("swarm"), run});
    rows.push_back({"  progress", TrainingLine(swarm, At(json, "work"))});
  }
  rows.push_back({RowName("role"), RoleText(At(json, "role"))});
  if (const std::string lan = LanText(At(json, "role")); !lan.empty()) {
    rows.push_back(
        {RowName("role.lan[]"), "shared by the peers of " + lan + ", which add up first"});
  }
  if (const std::string curve = Sparkline(Losses(At(swarm, "losses")), 40); !curve.empty()) {
    rows.push_back({RowName("swarm.losses[][]"), curve});
  }
  std::string device = Text(json, "device");
  if (const auto bytes = Whole(At(json, "memory"), "stateBytes"); bytes > 0) {
    device += (device.empty() ? "" : ", ") + FormatBytes(bytes) + " of weights and optimizer";
  }
  if (!device.empty()) rows.push_back({RowName("device"), device});
  const Json& fetch = At(json, "fetch");
  if (Whole(fetch, "totalBytes") > Whole(fetch, "doneBytes")) {
    rows.push_back({RowName("fetch"), FormatBytes(Whole(fetch, "doneBytes")) + " of " +
                                          FormatBytes(Whole(fetch, "totalBytes"))});
  }
  const Json& limits = At(json, "limits");
  rows.push_back({RowName("limits"), "upload " + CapText(limits, "upBps") + ", download " +
                                         CapText(limits, "downBps")});
  const Json& pacing = At(json, "pacing");
  if (const std::uint64_t line = Whole(pacing, "lineBps"); line > 0) {
    const std::uint64_t pace = Whole(pacing, "upBps");
    rows.push_back({RowName("pacing.lineBps"),
                    "takes " + FormatRate({line}) + " up, as measured" +
                        (pace > 0 ? "; uploads keep to " + FormatRate({pace}) : "")});
  }
  for (Row& row : TimeRows(json)) rows.push_back(std::move(row));
  for (Row& row : ScheduleRows(json)) rows.push_back(std::move(row));
  rows.push_back({RowName("deltaStore"), DeltaStoreText(At(json, "deltaStore"))});
  for (const Json& end : List(json, "boundaries")) {
    const std::string measured = BoundaryText(end);
    if (measured.empty()) continue;
    rows.push_back({RowName("boundaries[].boundary") + " " + std::to_string(Whole(end, "boundary")),
                    measured});
  }
  text += FormatTable(rows) + LinkTable(json) + TrafficTable(At(json, "traffic"));
  return text + HealthLines({{"", &json}});
}

Result<std::string> SwarmView(const std::string& status_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, Parse(status_json));
  const Json& run = At(json, "run");
  std::string text = Bold(Text(run, "name")) + "  " + StateText(Text(run, "state"));
  if (!Text(run, "reason").empty()) text += ": " + Text(run, "reason");
  text += "\n";
  std::vector<Row> rows;
  std::string progress =
      "step " + std::to_string(Whole(run, "step")) + " of " + std::to_string(Whole(run, "steps"));
  if (Number(run, "loss") > 0) progress += ", loss " + Decimal("%.4f", Number(run, "loss"));
  if (Number(run, "samplesPerSecond") > 0) {
    progress += ", " + Decimal("%.1f samples/s", Number(run, "samplesPerSecond"));
  }
  if (const double seconds = Number(run, "stepSeconds"); seconds > 0) {
    progress += ", " + MillisecondsText(1e3 * seconds) + " a step";
  }
  rows.push_back({"  progress", progress});
  rows.push_back({"  " + net::RunLabel("run.checkpointStep"),
                  "step " + std::to_string(Whole(run, "checkpointStep"))});
  if (const std::string curve = Sparkline(Losses(At(run, "losses")), 40); !curve.empty()) {
    rows.push_back({"  " + net::RunLabel("run.losses[]"), curve});
  }
  text += FormatTable(rows);
  text += MemberTable(json) + MemberTimeTable(json);
  if (const auto wrong = Whole(At(json, "consistency"), "mMismatches"); wrong > 0) {
    text += "  " + Yellow("warning") + ": the two ends of a boundary differed after " +
            std::to_string(wrong) + " steps; what differs is sent again in full\n";
  }
  std::vector<std::pair<std::string, const Json*>> statuses;
  const std::vector<std::string> names = MemberNames(json);
  for (const Json& member : List(json, "members")) {
    statuses.emplace_back(names[statuses.size()], &At(member, "status"));
  }
  return text + HealthLines(statuses);
}

}  // namespace shoal::client
