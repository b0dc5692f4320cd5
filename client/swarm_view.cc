#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
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

std::string MemberPosition(const Json& member) {
  const Json& stage = At(member, "stage");
  if (!stage.is_number() || stage.get<double>() < 0) return "spare";
  const std::string position = "stage " + std::to_string(Whole(member, "stage")) + ", pipeline " +
                               std::to_string(Whole(member, "pipeline"));
  const std::string lan = LanText(At(At(member, "status"), "role"));
  return lan.empty() ? position : position + " (LAN of " + lan + ")";
}

std::string MemberTable(const Json& run_status) {
  std::vector<Row> members = {
      {"  " + net::RunLabel("members[].name"), net::RunLabel("members[].peer"),
       net::RunLabel("members[].position"), net::RunLabel("members[].state"),
       net::PeerLabel("links[].upBps"), net::PeerLabel("links[].downBps"),
       net::PeerLabel("traffic.sentWireBytes"), net::PeerLabel("links[].ratio")}};
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
                       MemberPosition(member), MemberState(member), RateText(up), RateText(down),
                       FormatBytes(Whole(traffic, "sentWireBytes")),
                       wire > 0 ? Decimal("%.1fx", raw / wire) : "-"});
  }
  return FormatTable(members);
}

// Where each stage's time goes, and its schedule; "" before any stage has worked.
std::string MemberTimeTable(const Json& run_status) {
  std::vector<Row> rows = {{"  " + net::RunLabel("members[].name"), net::PeerLabel("work.computes"),
                            net::PeerLabel("work.waitsFor"), net::PeerLabel("work.schedule"),
                            net::PeerLabel("work.inFlightMax"),
                            net::PeerLabel("work.pendingWeightsMax"),
                            net::PeerLabel("work.simulatedMs")}};
  const std::vector<std::string> names = MemberNames(run_status);
  std::size_t number = 0;
  for (const Json& member : List(run_status, "members")) {
    const std::string& name = names[number++];
    const Json& status = At(member, "status");
    const StageTime time = StageTimeOf(status);
    if (time.total_ms <= 0) continue;
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

// Where a copy of the newest checkpoint is, or why it is not; "" without a store.
std::string StoreText(const Json& store) {
  const std::string address = Text(store, "address");
  if (address.empty()) return "";
  std::string text = "nothing in " + address;
  if (At(store, "step").is_number()) {
    text = "step " + std::to_string(Whole(store, "step")) + " in " + address;
  }
  if (At(store, "pendingStep").is_number()) {
    text += ", step " + std::to_string(Whole(store, "pendingStep")) + " " +
            net::RunLabel("checkpointStore.state", Text(store, "state"));
  }
  if (const std::string failure = Text(store, "lastFailure"); !failure.empty()) {
    text += "; " + Yellow("last failure") + ": " + failure;
  }
  return text;
}

// "2026-11-28 13:05 UTC"; "-" where it is not known.
std::string TimeText(const Json& json, const char* key) {
  if (!At(json, key).is_number()) return "-";
  const auto seconds = static_cast<std::time_t>(Whole(json, key) / 1000);
  std::tm parts{};
  char text[32] = "-";
  if (::gmtime_r(&seconds, &parts) == nullptr) return text;
  (void)std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

// Of the leader, where a scheduler that stands by says it.
std::string SeenText(const Json& standby) {
  const Json& seconds = At(standby, "leaderSeenSeconds");
  return seconds.is_number() ? ", seen " + MillisecondsText(1e3 * seconds.get<double>()) + " ago"
                             : "";
}

std::string UsesText(const Json& invite) {
  if (!At(invite, "uses").is_number()) return "no limit";
  return std::to_string(Whole(invite, "usesLeft")) + " of " + std::to_string(Whole(invite, "uses"));
}

std::string UsersText(const Json& invite) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  std::size_t count = 0;
  for (const Json& user : List(invite, "usedBy")) {
    if (count++ >= kNamed) continue;
    const std::string name = Text(user, "name");
    text += (text.empty() ? "" : ", ") + (name.empty() ? "peer" : name) + " (" +
            Text(user, "peer").substr(0, 8) + ")";
  }
  if (count > kNamed) text += " and " + std::to_string(count - kNamed) + " more";
  return text.empty() ? "-" : text;
}

std::string NameText(const std::string& name) { return name.empty() ? "-" : name; }

}  // namespace

Result<std::string> InvitesView(const std::string& invites_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(invites_json, "the list of invites"));
  std::vector<Row> rows = {{"id", "name", "state", "uses left", "expires", "used by"}};
  for (const Json& invite : List(json, "invites")) {
    const std::string expires = TimeText(invite, "expiresUnixMs");
    rows.push_back({Text(invite, "id"), NameText(Text(invite, "name")), Text(invite, "state"),
                    UsesText(invite), expires == "-" ? "never" : expires, UsersText(invite)});
  }
  return FormatTable(rows);
}

Result<std::string> MembersView(const std::string& members_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(members_json, "the list of members"));
  if (List(json, "members").empty()) return std::string("nobody has joined yet\n");
  std::vector<Row> rows = {{"key", "name", "invite", "since", "last seen", "state"}};
  for (const Json& member : List(json, "members")) {
    std::string state = Text(member, "state");
    if (const std::string until = TimeText(member, "quarantineUntilUnixMs"); until != "-") {
      state += (state == "quarantine" ? " until " : ", in quarantine until ") + until;
    }
    if (const std::string reason = Text(member, "reason"); !reason.empty()) state += ": " + reason;
    const bool here = At(member, "connected") == true;
    const std::string invite = Text(member, "inviteName");
    rows.push_back({Text(member, "peer").substr(0, 8), NameText(Text(member, "name")),
                    invite.empty() ? Text(member, "invite") : invite,
                    TimeText(member, "sinceUnixMs"),
                    here ? "now" : TimeText(member, "lastSeenUnixMs"), state});
  }
  return FormatTable(rows);
}

Result<std::string> SwarmView(const std::string& status_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseObject(status_json, "the status"));
  if (const Json& standby = At(json, "standby"); standby.is_object()) {
    return Bold(Text(standby, "run")) + "  this scheduler stands by; the leader is " +
           Text(standby, "leader") + SeenText(standby) + "\n";
  }
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
  rows.push_back({RowName("swarm.progress"), progress});
  std::string saved = "step " + std::to_string(Whole(run, "checkpointStep"));
  if (const auto every = Whole(run, "checkpointEvery"); every > 0) {
    saved +=
        every == 1 ? ", one after every step" : ", one every " + std::to_string(every) + " steps";
  }
  rows.push_back({"  " + net::RunLabel("run.checkpointStep"), saved});
  if (const std::string stored = StoreText(At(json, "checkpointStore")); !stored.empty()) {
    rows.push_back({"  " + net::RunLabel("checkpointStore.step"), stored});
  }
  if (const std::string curve = Sparkline(Losses(At(run, "losses")), 40); !curve.empty()) {
    rows.push_back({"  " + net::RunLabel("run.losses[]"), curve});
  }
  if (const std::string held_out = HeldOutText(run); !held_out.empty()) {
    rows.push_back({"  " + net::RunLabel("run.heldOutLoss"), held_out});
  }
  text += FormatTable(rows);
  text += MemberTable(json) + MemberTimeTable(json);
  if (const auto wrong = Whole(At(json, "consistency"), "mMismatches"); wrong > 0) {
    text += "  " + Yellow("warning") + ": the two ends of a boundary differed after " +
            std::to_string(wrong) + " steps; what differs is sent again in full\n";
  }
  if (const auto skipped = Whole(run, "skippedSteps"); skipped > 0) {
    text += "  " + Yellow("warning") + ": " + std::to_string(skipped) +
            (skipped == 1 ? " step was skipped" : " steps were skipped");
    if (!Text(run, "lastSkipped").empty()) text += "; " + Text(run, "lastSkipped");
    text += "\n";
  }
  if (const std::string failure = Text(At(json, "logs"), "lastFailure"); !failure.empty()) {
    text += "  " + Yellow("warning") + ": a log is not written; it tries again: " + failure + "\n";
  }
  std::vector<std::pair<std::string, const Json*>> statuses;
  const std::vector<std::string> names = MemberNames(json);
  for (const Json& member : List(json, "members")) {
    statuses.emplace_back(names[statuses.size()], &At(member, "status"));
  }
  return text + HealthLines(statuses);
}

}  // namespace shoal::client
