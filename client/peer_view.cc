#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/base/terminal.h"
#include "client/stage_time_view-inl.h"
#include "client/status_text-inl.h"
#include "client/status_view.h"
#include "common/units.h"
#include "net/http/status_fields.h"

namespace shoal::client {
namespace {

std::string CapText(const Json& limits, const char* key) {
  const std::uint64_t cap = Whole(limits, key);
  return cap == 0 ? "no cap" : "cap " + FormatRate(BitsPerSecond{cap});
}

// "training since 3m 20s", and why when there is a reason.
std::string PeerHeadline(const Json& json) {
  std::string text = Bold(Text(json, "name")) + "  " + StateText(Text(json, "state"));
  const std::uint64_t time_ms = Whole(json, "time");
  const std::uint64_t since_ms = Whole(json, "since");
  if (since_ms > 0 && time_ms > since_ms) {
    text += " for " + MillisecondsText(static_cast<double>(time_ms - since_ms));
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
  const auto of = [](const char* name) { return net::PeerLabel(std::string("traffic.") + name); };
  std::vector<Row> rows = {{RowName("traffic"), of("sentWireBytes"), of("receivedWireBytes"),
                            of("forward.rawSentBytes"), of("forward.ratio")}};
  for (const char* kind : {"forward", "backward", "replica"}) {
    const Json& bytes = At(traffic, kind);
    const std::uint64_t raw = Whole(bytes, "rawSentBytes") + Whole(bytes, "rawReceivedBytes");
    if (raw == 0) continue;
    rows.push_back({"  " + of(kind), FormatBytes(Whole(bytes, "wireSentBytes")),
                    FormatBytes(Whole(bytes, "wireReceivedBytes")), FormatBytes(raw),
                    Decimal("%.1fx", Number(bytes, "ratio"))});
  }
  const Json& control = At(traffic, "control");
  rows.push_back({"  " + of("control"), FormatBytes(Whole(control, "wireSentBytes")),
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

// Of gradients that travel as low rank; "" where none do.
std::string LowRankText(const Json& low_rank) {
  const std::uint64_t messages = Whole(low_rank, "messages");
  if (messages == 0) return "";
  std::string text = PercentText(low_rank, "ratio") + " of " + std::to_string(messages) +
                     " gradients low rank (" + Decimal("%.2f", Number(low_rank, "bitsPerValue")) +
                     " bits a value, others " +
                     Decimal("%.2f", Number(low_rank, "otherBitsPerValue")) + ")";
  if (!At(low_rank, "lazy").is_boolean()) return text;
  text += At(low_rank, "lazy").get<bool>() ? ", their error is added to the next one"
                                           : ", their error is dropped";
  if (!At(low_rank, "correlation").is_number()) return text;
  return text + Decimal(" (activations alike by %.2f)", Number(low_rank, "correlation"));
}

std::string ChangesText(const Json& seen, const char* what) {
  return std::string(what) + " change by " + PercentText(seen, "relativeDelta") + " (a tenth by " +
         PercentText(seen, "relativeDeltaP90") + " or more)";
}

// How often samples travelled as what.
void AddVisits(const Json& seen, const std::string& of, std::vector<std::string>* parts) {
  const std::uint64_t hits = Whole(seen, "deltaHits"), first = Whole(seen, "firstVisits");
  if (hits + first > 0) {
    parts->push_back(of + std::to_string(hits) + " changes, " + std::to_string(first) +
                     " first visits");
  }
  if (const std::uint64_t again = Whole(seen, "resends"); again > 0) {
    parts->push_back(std::to_string(again) + " sent again in full");
  }
}

// What one end of a boundary measures, in words; "" as long as it is nothing.
std::string BoundaryText(const Json& end) {
  const std::string mode = Text(end, "mode");
  std::vector<std::string> parts;
  if (mode == "full" || mode == "wide delta") {
    parts.push_back(net::PeerLabel("boundaries[].mode", mode));
  }
  if (At(end, "relativeDelta").is_number()) {
    parts.push_back(ChangesText(end, "tokens"));
  }
  for (const auto& [key, side] :
       {std::pair{"forwardError", "sender"}, std::pair{"backwardError", "receiver"}}) {
    if (!At(end, key).is_number()) continue;
    parts.push_back(net::PeerLabel("boundaries[].side", side) + " sent with error " +
                    PercentText(end, key));
  }
  if (const std::string low_rank = LowRankText(At(end, "lowRank")); !low_rank.empty()) {
    parts.push_back(low_rank);
  }
  AddVisits(end, "", &parts);
  if (const Json& gradients = At(end, "gradients"); gradients.is_object()) {
    if (At(gradients, "relativeDelta").is_number()) {
      parts.push_back(ChangesText(gradients, "gradients"));
    }
    AddVisits(gradients, "gradients: ", &parts);
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string LinkTable(const Json& status) {
  const Json& links = At(status, "links");
  const StageTime time = StageTimeOf(status);
  if (!links.is_array() || links.empty()) return "";
  const auto of = [](const char* name) { return net::PeerLabel(std::string("links[].") + name); };
  std::vector<Row> rows = {{RowName("links[]"), of("name"), of("path"), of("upBps"), of("downBps"),
                            of("ratio"), of("sentWireBytes"), of("receivedWireBytes"), of("rttMs"),
                            of("busy"), of("queueBytes")}};
  for (const Json& link : links) {
    rows.push_back({"  " + Text(link, "channel"), Text(link, "name"),
                    Text(link, "path").empty() ? "-" : Text(link, "path"),
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

}  // namespace

Result<std::string> PeerView(const std::string& status_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(status_json, "the status"));
  const Json& swarm = At(json, "swarm");
  std::string text = PeerHeadline(json);
  std::vector<Row> rows;
  if (!Text(swarm, "name").empty()) {
    std::string run = Text(swarm, "name") + ", " + StateText(Text(swarm, "state"));
    if (!Text(swarm, "reason").empty()) run += ": " + Text(swarm, "reason");
    rows.push_back({RowName("swarm"), run});
    rows.push_back({RowName("swarm.progress"), TrainingLine(swarm, At(json, "work"))});
  }
  rows.push_back({RowName("role"), RoleText(At(json, "role"))});
  if (const std::string lan = LanText(At(json, "role")); !lan.empty()) {
    rows.push_back(
        {RowName("role.lan[]"), "shared by the peers of " + lan + ", which add up first"});
  }
  if (const std::string curve = Sparkline(Losses(At(swarm, "losses")), 40); !curve.empty()) {
    rows.push_back({RowName("swarm.losses[][]"), curve});
  }
  if (const std::string held_out = HeldOutText(swarm); !held_out.empty()) {
    rows.push_back({RowName("swarm.heldOutLoss"), held_out});
  }
  std::string device = Text(json, "device");
  if (const auto bytes = Whole(At(json, "memory"), "stateBytes"); bytes > 0) {
    device += (device.empty() ? "" : ", ") + FormatBytes(bytes) + " of weights and optimizer";
  }
  if (!device.empty()) rows.push_back({RowName("device"), device});
  if (const std::string gpu = GpuText(At(json, "gpu")); !gpu.empty()) {
    const double joules = Number(At(json, "usage"), "energyJoules");
    rows.push_back({RowName("gpu"),
                    gpu + (joules > 0 ? "; " + EnergyText(joules) + " for training so far" : "")});
  }
  const Json& fetch = At(json, "fetch");
  if (Whole(fetch, "totalBytes") > Whole(fetch, "doneBytes")) {
    rows.push_back({RowName("fetch"), FormatBytes(Whole(fetch, "doneBytes")) + " of " +
                                          FormatBytes(Whole(fetch, "totalBytes"))});
  }
  const Json& limits = At(json, "limits");
  rows.push_back({RowName("limits"), "upload " + CapText(limits, "upBps") + ", download " +
                                         CapText(limits, "downBps")});
  const Json& reasons = List(json, "stateReasons");
  for (const Json& rule : List(At(json, "terms"), "rules")) {
    const bool said = std::find(reasons.begin(), reasons.end(), rule) != reasons.end();
    if (!rule.is_string() || said) continue;
    rows.push_back({RowName("terms"), Printable(rule.get_ref<const std::string&>())});
  }
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

}  // namespace shoal::client
