// What `shoal swarm audit` and `shoal swarm events` print of shoal-scheduler's report.

#include <time.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client/base/terminal.h"
#include "client/status_text-inl.h"
#include "client/status_view.h"

namespace shoal::client {
namespace {

// Lines of one kind, the newest; --json has all.
constexpr std::size_t kLinesMax = 10;

std::string Counted(std::uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string Steps(std::uint64_t count) { return Counted(count, "step", "steps"); }

// Where the log has no name, as of a member that an older version let in, its id must do.
std::string PeerText(const Json& peer) {
  const std::string id = Text(peer, "peer").substr(0, 8);
  const std::string name = Text(peer, "name");
  return name.empty() ? id : name + " (" + id + ")";
}

std::string TimeText(const Json& entry) {
  constexpr std::uint64_t kLast_ms = 253'402'300'799'000;  // the year 9999 ends
  if (!At(entry, "time").is_number()) return "-";
  const auto seconds = static_cast<time_t>(std::min(Whole(entry, "time"), kLast_ms) / 1000);
  struct tm utc {};
  char text[32];
  if (::gmtime_r(&seconds, &utc) == nullptr) return "-";
  return std::string(text, ::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &utc));
}

// Rows of a list, the name before the first of them.
void AddRows(const std::string& name, const Json& list, std::string (*text)(const Json& item),
             std::vector<Row>* rows) {
  const std::size_t first = list.size() > kLinesMax ? list.size() - kLinesMax : 0;
  std::string label = "  " + name;
  if (first > 0) {
    rows->push_back({label, std::to_string(first) + " earlier ones (--json has all)"});
    label.clear();
  }
  for (std::size_t i = first; i < list.size(); ++i) {
    rows->push_back({label, text(list[i])});
    label.clear();
  }
}

std::string ThrownAwayText(const Json& item) {
  const std::uint64_t first = Whole(item, "firstStep"), last = Whole(item, "lastStep");
  return (first == last ? "step " + std::to_string(first)
                        : "steps " + std::to_string(first) + " to " + std::to_string(last)) +
         " of generation " + std::to_string(Whole(item, "generation")) + ", as generation " +
         std::to_string(Whole(item, "resumedBy")) + " went back";
}

std::string SkippedText(const Json& item) {
  return "step " + std::to_string(Whole(item, "step")) + ": " + Text(item, "cause");
}

std::string ProgressText(const Json& audit) {
  std::string text = Steps(Whole(audit, "steps")) + " in " +
                     Counted(Whole(audit, "generations"), "generation", "generations");
  if (Whole(audit, "stepsPerEpoch") == 0) return text;
  return text + ", " + Counted(Whole(audit, "epochs"), "epoch", "epochs") + " and " +
         std::to_string(Whole(audit, "stepsOfEpoch")) + " of " +
         Steps(Whole(audit, "stepsPerEpoch"));
}

std::string MemberTable(const Json& audit) {
  std::vector<Row> rows = {{"  member", "micro-batches counted", "thrown away"}};
  for (const Json& member : List(audit, "members")) {
    rows.push_back({"  " + PeerText(member), std::to_string(Whole(member, "microBatches")),
                    std::to_string(Whole(member, "microBatchesThrownAway"))});
  }
  return rows.size() > 1 ? FormatTable(rows) : "";
}

std::string SampleTable(const Json& audit) {
  const Json& sample = At(audit, "sample");
  if (!sample.is_object()) return "";
  const Json& members = List(audit, "members");
  std::vector<Row> rows = {{"  sample " + std::to_string(Whole(sample, "row")) + " in epoch",
                            "step", "micro-batch", "generation", "counted by, stage after stage"}};
  for (const Json& visit : List(sample, "visits")) {
    std::string by;
    for (const Json& index : List(visit, "members")) {
      const std::uint64_t at = index.is_number() ? ToWhole(index.get<double>()) : members.size();
      if (at < members.size()) by += (by.empty() ? "" : ", ") + PeerText(members[at]);
    }
    rows.push_back({"  " + std::to_string(Whole(visit, "epoch")),
                    std::to_string(Whole(visit, "step")),
                    std::to_string(Whole(visit, "microBatch")),
                    std::to_string(Whole(visit, "generation")), by.empty() ? "-" : by});
  }
  return FormatTable(rows);
}

std::string PlaceText(const Json& change) {
  return "stage " + std::to_string(Whole(change, "stage")) + ", pipeline " +
         std::to_string(Whole(change, "pipeline"));
}

std::string ReplacedText(const Json& repair) {
  std::string text;
  for (const Json& change : List(repair, "replaced")) {
    const Json& from = At(change, "from");
    const Json& to = At(change, "to");
    text += "; " + PlaceText(change) + ": ";
    if (to.is_null()) {
      text += "nobody any more";
    } else {
      text += PeerText(to) + (from.is_null() ? "" : " for " + PeerText(from));
    }
  }
  return text;
}

std::string StepsBeforeText(const Json& repair) {
  const std::string before = Text(repair, "stepsBefore");
  if (before == "trained_again") {
    return Red(Steps(Whole(repair, "stepsLost")) + " lost") + ", trained again";
  }
  if (before == "kept") return Green("no step lost") + ", kept in memory";
  if (before == "saved") return Green("no step lost") + ", saved by those who were left";
  if (before == "checkpointed") return Green("no step lost") + ", a checkpoint had them all";
  return "the first";
}

std::string RepairText(const Json& repair) {
  std::string text = std::to_string(Whole(repair, "generation")) + " from step " +
                     std::to_string(Whole(repair, "step")) + ": " + StepsBeforeText(repair);
  if (At(repair, "secondsWithoutStep").is_number()) {
    text += std::string(At(repair, "atMost") == true ? ", at most " : ", ") +
            MillisecondsText(1e3 * Number(repair, "secondsWithoutStep")) + " without a step";
  }
  return text + ReplacedText(repair);
}

std::string CountingText(const Json& entry) {
  std::string text = "from step " + std::to_string(Whole(entry, "step")) + " on pipelines";
  for (const Json& pipeline : List(entry, "pipelines")) {
    if (pipeline.is_number()) text += " " + std::to_string(ToWhole(pipeline.get<double>()));
  }
  const std::string reason = Text(entry, "reason");
  if (!reason.empty()) text += ": " + reason;
  return text;
}

std::string EntryText(const Json& entry) {
  const std::string kind = Text(entry, "kind");
  const std::string reason = Text(entry, "reason");
  if (kind == "generation") return RepairText(entry);
  if (kind == "counting") return CountingText(entry);
  const std::string step = std::to_string(Whole(entry, "step"));
  if (kind == "skipped") return "step " + step + ": " + reason;
  if (kind == "finished") return "after " + Steps(Whole(entry, "step"));
  if (kind == "ended") {
    return std::to_string(Whole(entry, "generation")) + " before step " + step + ": " + reason;
  }
  if (kind == "scheduler") return "started again";
  if (kind == "continued")
    return "step " + step + ": the peers had gone on with it, nothing is lost";
  if (kind == "restored") return "the checkpoint of step " + step + ", from a copy of the run";
  std::string text = At(entry, "peer").is_string() ? PeerText(entry) : "";
  if (!reason.empty()) text += (text.empty() ? "" : ": ") + reason;
  if (const std::uint64_t more = Whole(entry, "unstored"); more > 0) {
    text += "; before it " + std::to_string(more) + " more joined or left too often to be listed";
  }
  return text;
}

std::string KindText(const std::string& kind) {
  if (kind == "ended" || kind == "left" || kind == "skipped") return Yellow(kind);
  if (kind == "joined" || kind == "finished") return Green(kind);
  return kind;
}

}  // namespace

Result<std::string> AuditView(const std::string& audit_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json audit, ParseObject(audit_json, "the audit"));
  std::string text = Bold("run " + Text(audit, "run")) + "  the ledger is ";
  if (At(audit, "right") == true) {
    text += Green("right") + ": " + Counted(Whole(audit, "samples"), "sample", "samples") +
            ", each counted once in its epoch\n";
  } else {
    text += Red("wrong") + ": " + Text(audit, "wrong") + "\n";
  }
  if (!At(audit, "steps").is_number()) return text;
  std::vector<Row> rows = {{"  progress", ProgressText(audit)}};
  if (const std::uint64_t again = Whole(audit, "stepsThrownAway"); again > 0) {
    rows.push_back({"  lost", Steps(again) + " trained and thrown away"});
  }
  AddRows("", List(audit, "thrownAway"), ThrownAwayText, &rows);
  AddRows("skipped", List(audit, "skipped"), SkippedText, &rows);
  return text + FormatTable(rows) + MemberTable(audit) + SampleTable(audit);
}

Result<std::string> EventsView(const std::string& events_json) {
  SHOAL_ASSIGN_OR_RETURN(const Json report, ParseObject(events_json, "the events"));
  const std::uint64_t lost = Whole(report, "stepsLost");
  std::string text = Bold("run " + Text(report, "run")) + "  " +
                     Counted(Whole(report, "generations"), "generation", "generations") + ", " +
                     (lost == 0 ? Green("no step lost") : Red(Steps(lost) + " lost")) + ", " +
                     MillisecondsText(1e3 * Number(report, "secondsWithoutStep")) +
                     " without a step between them\n";
  std::vector<Row> rows = {{"  time (UTC)", "event", ""}};
  for (const Json& entry : List(report, "events")) {
    rows.push_back({"  " + TimeText(entry), KindText(Text(entry, "kind")), EntryText(entry)});
  }
  return text + FormatTable(rows);
}

}  // namespace shoal::client
