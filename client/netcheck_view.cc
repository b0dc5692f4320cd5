// `shoal netcheck`: how others reach this machine's peer, of what shoald knows.

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/base/terminal.h"
#include "client/status_text-inl.h"
#include "client/status_view.h"

namespace shoal::client {
namespace {

std::string HostOf(const std::string& host_port) {
  return host_port.substr(0, host_port.rfind(':'));
}

std::string PortOf(const std::string& host_port) {
  const std::size_t colon = host_port.rfind(':');
  return colon == std::string::npos ? "" : host_port.substr(colon + 1);
}

// What a relay outside saw of this machine.
struct Outside {
  std::string own, seen, relay;  // host:port of both ends of one connection
  bool reached = false, asked = false, registered = false;

  bool known() const { return !own.empty() && !seen.empty(); }
  bool translated() const { return HostOf(own) != HostOf(seen); }
  bool keeps_port() const { return PortOf(own) == PortOf(seen); }
};

Outside OutsideOf(const Json& status) {
  Outside outside;
  for (const Json& relay : List(status, "relays")) {
    const std::string dial_back = Text(relay, "dialBack");
    outside.asked = outside.asked || dial_back == "reached" || dial_back == "not reached";
    outside.reached = outside.reached || dial_back == "reached";
    outside.registered = outside.registered || At(relay, "registered") == true;
    if (outside.known() || Text(relay, "seenAddress").empty()) continue;
    outside.own = Text(relay, "ownAddress");
    outside.seen = Text(relay, "seenAddress");
    outside.relay = Text(relay, "relay");
  }
  return outside;
}

std::string NatText(const Outside& outside) {
  if (!outside.known()) return "not known: no relay looks at this machine from outside";
  if (!outside.translated()) return "none: the address outside is this machine's own";
  return outside.keeps_port() ? "a router translates addresses and keeps ports"
                              : "a router translates addresses and ports";
}

// Whether two such peers could connect through both routers. Of one that changes ports it is not
// known which it gives to the next connection.
std::string_view PunchWord(const Outside& outside) {
  if (!outside.known()) return "unknown";
  return outside.keeps_port() ? "likely" : "unlikely";
}

std::string PunchText(const Outside& outside) {
  const std::string_view word = PunchWord(outside);
  if (word == "unknown") return "not known";
  return word == "likely" ? "likely, with others whose router keeps ports"
                          : "unlikely: the router changes ports, so that a relay is needed";
}

std::string MappingText(const Json& status) {
  const Json& mapping = At(status, "mapping");
  if (!Text(mapping, "address").empty()) {
    return Text(mapping, "address") + " leads here (" + Text(mapping, "how") + ")";
  }
  const std::string trouble = Text(mapping, "trouble");
  return "none" + (trouble.empty() ? ": no router was asked, or not yet" : ": " + trouble);
}

// ", 40 Mbit/s from there, 9 Mbit/s there"; rates of 0 are not known.
std::string RatesText(double from_bps, double to_bps) {
  return (from_bps > 0 ? ", " + RateText(from_bps) + " from there" : "") +
         (to_bps > 0 ? ", " + RateText(to_bps) + " there" : "");
}

// What links through the relay carry now, all together. Where the other end dialled, a link has the
// relay's number for an address, not its name.
std::string RelayedText(const Json& status, const std::string& relay) {
  const bool only = List(status, "relays").size() == 1;
  double down_bps = 0, up_bps = 0;
  for (const Json& link : List(status, "links")) {
    if (Text(link, "path") != "relay") continue;
    if (!only && Text(link, "address") != "relay " + relay) continue;
    down_bps += Number(link, "downBps");
    up_bps += Number(link, "upBps");
  }
  return RatesText(down_bps, up_bps);
}

std::string RelayText(const Json& status, const Json& relay) {
  std::string text = Text(relay, "relay");
  if (At(relay, "registered") != true) {
    const std::string trouble = Text(relay, "trouble");
    return text + ": not registered" + (trouble.empty() ? "" : ", " + trouble);
  }
  text += ": registered";
  if (Number(relay, "rttMs") > 0) text += ", " + Decimal("%.1f ms", Number(relay, "rttMs"));
  return text + RelayedText(status, Text(relay, "relay"));
}

std::map<std::string, int> PathsOf(const Json& status) {
  std::map<std::string, int> paths = {{"lan", 0}, {"direct", 0}, {"punched", 0}, {"relay", 0}};
  for (const Json& link : List(status, "links")) {
    if (const auto path = paths.find(Text(link, "path")); path != paths.end()) ++path->second;
  }
  return paths;
}

std::string SchedulerText(const Json& scheduler) {
  if (At(scheduler, "connected") != true) {
    const std::string trouble = Text(scheduler, "trouble");
    return "not connected" + (trouble.empty() ? "" : ": " + trouble);
  }
  const double rtt_ms = Number(scheduler, "rttMs");
  return "connected" + (rtt_ms > 0 ? ", answered in " + Decimal("%.1f ms", rtt_ms) : "") +
         RatesText(Number(scheduler, "downBps"), Number(scheduler, "upBps"));
}

bool Mapped(const Json& status) { return !Text(At(status, "mapping"), "address").empty(); }

// How others reach this peer: "direct", "relay" or "unknown".
std::string_view Verdict(const Json& status, const Outside& outside) {
  if (outside.reached || Mapped(status)) return "direct";
  if (outside.known() && !outside.translated() && !outside.asked) return "direct";
  return outside.registered ? "relay" : "unknown";
}

std::string VerdictText(std::string_view verdict, const Json& status) {
  if (verdict == "direct") return "others reach this peer directly";
  const std::string port = std::to_string(Whole(status, "listenPort"));
  const std::string mend = "turn UPnP or NAT-PMP on in the router, or let it forward TCP port " +
                           port + " to this machine (listen = \"0.0.0.0:" + port +
                           "\" keeps the port)";
  if (verdict == "relay") {
    return "others reach this peer by a relay, or it dials them; to do without: " + mend;
  }
  return "nobody looks from outside; if links do not open: " + mend +
         ", or ask the organiser for a relay";
}

std::string LinksText(const Json& status) {
  std::string text;
  for (const auto& [path, count] : PathsOf(status)) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + path;
  }
  return text.empty() ? "none open" : text;
}

std::string LineText(const Json& status) {
  const double line = Number(At(status, "pacing"), "lineBps");
  const double cap = Number(At(status, "limits"), "upBps");
  return (line > 0 ? "takes " + RateText(line) + " up" : "not measured yet") +
         (cap > 0 ? ", cap " + RateText(cap) : ", no cap");
}

}  // namespace

Result<std::string> NetcheckView(const std::string& status_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json status, ParseObject(status_json, "the status"));
  const Outside outside = OutsideOf(status);
  std::vector<Row> rows = {
      {"own address", outside.own.empty() ? "not known"
                                          : HostOf(outside.own) + ", listens on port " +
                                                std::to_string(Whole(status, "listenPort"))},
      {"seen as", outside.seen.empty() ? "not known" : outside.seen + " by " + outside.relay},
      {"translation", NatText(outside)},
      {"punching", PunchText(outside)},
      {"router's port", MappingText(status)},
      {"from outside", !outside.asked    ? "not tried"
                       : outside.reached ? "a relay reached this peer's port"
                                         : "no relay reached this peer's port"}};
  for (const Json& relay : List(status, "relays")) {
    rows.push_back({"relay", RelayText(status, relay)});
  }
  rows.push_back({"scheduler", SchedulerText(At(status, "scheduler"))});
  rows.push_back({"line", LineText(status)});
  rows.push_back({"links", LinksText(status)});
  rows.push_back({"verdict", VerdictText(Verdict(status, outside), status)});
  return FormatTable(rows);
}

Result<std::string> NetcheckJson(const std::string& status_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json status, ParseObject(status_json, "the status"));
  const Outside outside = OutsideOf(status);
  nlohmann::ordered_json json = {{"schemaVersion", 1}};
  json["verdict"] = Verdict(status, outside);
  json["translated"] = outside.known() ? nlohmann::ordered_json(outside.translated()) : nullptr;
  json["keepsPort"] = outside.known() ? nlohmann::ordered_json(outside.keeps_port()) : nullptr;
  json["punch"] = PunchWord(outside);
  json["ownAddress"] = outside.own;
  json["seenAddress"] = outside.seen;
  json["listenPort"] = Whole(status, "listenPort");
  json["reached"] = outside.asked ? nlohmann::ordered_json(outside.reached) : nullptr;
  json["mapping"] = At(status, "mapping");
  json["relays"] = List(status, "relays");
  json["schedulerConnected"] = At(At(status, "scheduler"), "connected") == true;
  json["schedulerRttMs"] = Number(At(status, "scheduler"), "rttMs");
  json["schedulerUpBps"] = Number(At(status, "scheduler"), "upBps");
  json["schedulerDownBps"] = Number(At(status, "scheduler"), "downBps");
  json["lineBps"] = Number(At(status, "pacing"), "lineBps");
  json["paths"] = PathsOf(status);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace shoal::client
