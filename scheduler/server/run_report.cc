#include "scheduler/server/run_report.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "common/open_file.h"
#include "common/version.h"
#include "net/etcd/etcd.h"
#include "scheduler/election/etcd_event_log.h"
#include "scheduler/history/run_audit.h"
#include "scheduler/history/run_timeline.h"
#include "scheduler/server/etcd_access.h"
#include "scheduler/server/history_place.h"
#include "storage/checkpoints/event_log.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string NameOf(const std::map<PeerId, std::string>& names, const PeerId& peer) {
  const auto found = names.find(peer);
  return found == names.end() ? std::string() : found->second;
}

Json Header(const std::optional<RunId>& run) {
  return {{"schemaVersion", 1},
          {"program", "shoal-scheduler"},
          {"version", kVersion},
          {"run", run ? run->ToHex() : ""}};
}

std::optional<RunId> RunOf(std::span<const TimedEvent> events) {
  for (const TimedEvent& timed : events) {
    if (const auto* const began = std::get_if<RunBegan>(&timed.event)) return began->run;
  }
  return std::nullopt;
}

// Of the pipelines that counted, by stage: indices of `members`.
Json HostsOf(const RunLedger& ledger, const LedgerSteps& steps, std::uint32_t stages,
             const std::map<PeerId, std::size_t>& members) {
  Json lists = Json::array();
  const LedgerPlan& plan = ledger.plans[steps.plan];
  for (const std::uint32_t pipeline : steps.pipelines()) {
    Json hosts = Json::array();
    for (std::uint32_t s = 0; s < stages; ++s) {
      hosts.push_back(members.at(plan.hosts[std::size_t{pipeline} * stages + s]));
    }
    lists.push_back(std::move(hosts));
  }
  return lists;
}

Json StepsJson(const RunLedger& ledger, const LedgerSteps& steps) {
  return {{"firstStep", steps.first},
          {"lastStep", steps.end - 1},
          {"generation", ledger.plans[steps.plan].generation}};
}

// Of the pipelines that counted.
Json HomesJson(const LedgerSteps& steps) {
  Json homes = Json::array();
  if (steps.dealing.homes.count == 0) return homes;
  for (const std::uint32_t pipeline : steps.pipelines()) {
    homes.push_back(steps.dealing.homes.of[pipeline]);
  }
  return homes;
}

void AddLedger(const RunLedger& ledger, Json* json) {
  std::uint64_t thrown_away = 0;
  Json gone = Json::array();
  for (const VoidSteps& entry : ledger.thrown_away) {
    thrown_away += entry.steps.size();
    gone.push_back(StepsJson(ledger, entry.steps));
    gone.back()["resumedBy"] = entry.resumed_by;
  }
  Json skipped = Json::array();
  for (const StepSkipped& entry : ledger.skipped) {
    skipped.push_back({{"step", entry.step}, {"cause", entry.cause}});
  }
  (*json)["steps"] = ledger.steps();
  (*json)["generations"] = ledger.plans.size();
  (*json)["stepsThrownAway"] = thrown_away;
  (*json)["thrownAway"] = std::move(gone);
  (*json)["skipped"] = std::move(skipped);
}

void AddDeal(const RunLedger& ledger, const SampleDeal& deal, Json* json) {
  const std::uint64_t per_step = std::uint64_t{deal.micro_batches} * deal.micro_batch_rows;
  (*json)["epochs"] = ledger.steps() / deal.steps_per_epoch;
  (*json)["stepsOfEpoch"] = ledger.steps() % deal.steps_per_epoch;
  (*json)["stepsPerEpoch"] = deal.steps_per_epoch;
  (*json)["samplesPerStep"] = per_step;
  (*json)["microBatchesPerStep"] = deal.micro_batches;
  (*json)["trainRows"] = deal.train_rows;
}

void AddAudit(const RunLedger& ledger, const RunAudit& audit, std::uint32_t stages,
              const std::map<PeerId, std::string>& names, std::optional<std::uint64_t> row,
              Json* json) {
  std::map<PeerId, std::size_t> index;
  Json members = Json::array();
  for (const MemberWork& member : audit.members) {
    index.emplace(member.peer, members.size());
    members.push_back({{"peer", member.peer.ToHex()},
                       {"name", NameOf(names, member.peer)},
                       {"microBatches", member.counted},
                       {"microBatchesThrownAway", member.thrown_away}});
  }
  Json history = Json::array();
  for (const LedgerSteps& steps : ledger.history) {
    history.push_back(StepsJson(ledger, steps));
    history.back()["pipelines"] = steps.pipelines();
    history.back()["homes"] = HomesJson(steps);
    history.back()["homeCount"] = steps.dealing.homes.count;
    history.back()["members"] = HostsOf(ledger, steps, stages, index);
  }
  (*json)["samples"] = audit.samples;
  (*json)["members"] = std::move(members);
  (*json)["history"] = std::move(history);
  if (!row) return;
  Json visits = Json::array();
  for (const SampleVisit& visit : audit.visits) {
    const LedgerSteps& steps = ledger.history[visit.steps];
    Json entry = {{"epoch", visit.epoch},
                  {"step", visit.step},
                  {"microBatch", visit.micro_batch},
                  {"generation", ledger.plans[steps.plan].generation}};
    if (visit.pipeline) {
      const Json hosts = HostsOf(ledger, steps, stages, index);
      const Pipelines pipelines = steps.pipelines();
      entry["pipeline"] = *visit.pipeline;
      entry["members"] = hosts[static_cast<std::size_t>(
          std::ranges::find(pipelines, *visit.pipeline) - pipelines.begin())];
    }
    visits.push_back(std::move(entry));
  }
  (*json)["sample"] = {{"row", *row}, {"visits", std::move(visits)}};
}

Json PeerJson(const std::map<PeerId, std::string>& names, const std::optional<PeerId>& peer) {
  if (!peer) return nullptr;
  return {{"peer", peer->ToHex()}, {"name", NameOf(names, *peer)}};
}

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void AddRepair(const Repair& repair, const std::map<PeerId, std::string>& names, Json* json) {
  Json changes = Json::array();
  for (const PositionChange& change : repair.changes) {
    changes.push_back({{"pipeline", change.pipeline},
                       {"stage", change.stage},
                       {"from", PeerJson(names, change.from)},
                       {"to", PeerJson(names, change.to)}});
  }
  (*json)["generation"] = repair.generation;
  (*json)["pipelines"] = repair.pipelines;
  (*json)["stepsBefore"] = StepsBeforeName(repair.steps_before);
  (*json)["stepsLost"] = repair.steps_lost;
  (*json)["secondsWithoutStep"] = OrNull(repair.seconds_without_step);
  (*json)["atMost"] = repair.at_most;
  (*json)["replaced"] = std::move(changes);
}

Json EntryJson(const TimelineEntry& entry, const std::map<PeerId, std::string>& names) {
  using Kind = TimelineEntry::Kind;
  Json json = {{"kind", TimelineKindName(entry.kind)}, {"time", OrNull(entry.at_ms)}};
  switch (entry.kind) {
    case Kind::kJoined:
    case Kind::kLeft:
      json["peer"] = entry.peer.ToHex();
      json["name"] = entry.name;
      if (entry.kind == Kind::kLeft) json["reason"] = entry.text;
      json["unstored"] = entry.unstored;
      break;
    case Kind::kRepair:
      json["step"] = entry.step;
      AddRepair(entry.repair, names, &json);
      break;
    case Kind::kCounting:
      json["step"] = entry.step;
      json["pipelines"] = entry.pipelines;
      json["reason"] = entry.text;
      break;
    case Kind::kEnded: json["generation"] = entry.repair.generation; [[fallthrough]];
    case Kind::kSkipped:
      json["step"] = entry.step;
      json["reason"] = entry.text;
      break;
    case Kind::kPaused: json["reason"] = entry.text; break;
    case Kind::kRestored:
    case Kind::kGoesOn:
    case Kind::kFinished: json["step"] = entry.step; break;
    case Kind::kBegan:
    case Kind::kScheduler:
    case Kind::kResumed: break;
  }
  return json;
}

}  // namespace

Result<std::vector<TimedEvent>> ReadEvents(const std::string& directory) {
  SHOAL_RETURN_IF_ERROR(CheckAccess(directory + "/events", R_OK | X_OK));
  std::vector<TimedEvent> events;
  const auto take = [&](std::uint64_t number, std::string_view event) {
    auto timed = DecodeTimedEvent(event);
    if (!timed.ok()) return timed.status().WithContext("event " + std::to_string(number));
    events.push_back(*std::move(timed));
    return Status::Ok();
  };
  SHOAL_ASSIGN_OR_RETURN(const HistoryPlace place, ReadHistoryPlace(directory));
  Status status;
  if (place.etcd.empty()) {
    status = storage::ReadRocksEventLog(directory + "/events", take);
  } else {
    SHOAL_ASSIGN_OR_RETURN(const net::EtcdAccess access, ReadEtcdAccess(place.login));
    SHOAL_ASSIGN_OR_RETURN(const auto etcd, net::OpenEtcd(place.etcd, access));
    status = ReadEtcdEventLog(etcd.get(), place.prefix, 1, kEtcdReadTimeout, take)
                 .WithContext("the history of this run is in etcd, " + place.etcd.front() +
                              ", below " + place.prefix);
  }
  if (status.code() == StatusCode::kNotFound || (status.ok() && events.empty())) {
    std::error_code error;
    if (const std::string file = directory + "/run.toml"; std::filesystem::exists(file, error)) {
      return NotFound("the run in " + directory +
                      " has not begun; start it with: shoal-scheduler --config " + file);
    }
    return NotFound("there is no history of a run in " + directory +
                    "; give the folder of a run, run.directory in its run.toml");
  }
  if (!status.ok()) return status;
  return events;
}

Result<AuditReport> ReportAudit(std::span<const TimedEvent> events,
                                std::optional<std::uint64_t> row) {
  const std::optional<SampleOrder> order = FindSampleOrder(events);
  if (!order) {
    return FailedPrecondition(
        "an older shoal-scheduler wrote this history, without how samples are dealt out; start "
        "the run's shoal-scheduler once, which adds it");
  }
  auto deal = MakeSampleDeal(*order);
  if (!deal.ok()) return DataLoss("the history's order of samples: " + deal.status().message());
  if (row && *row >= order->train_rows) {
    return OutOfRange("there is no sample " + std::to_string(*row) + "; the data have the rows 0 " +
                      "to " + std::to_string(order->train_rows - 1));
  }
  const auto ledger = ReplayLedger(events, order->stages);
  Status wrong = ledger.status();
  Json json = Header(RunOf(events));
  json["right"] = false;
  json["wrong"] = "";
  if (ledger.ok()) {
    AddLedger(*ledger, &json);
    AddDeal(*ledger, *deal, &json);
    const auto audit = AuditLedger(*ledger, *deal, order->stages, row);
    wrong = audit.status();
    if (audit.ok()) {
      AddAudit(*ledger, *audit, order->stages, MemberNames(events), row, &json);
    }
  }
  json["right"] = wrong.ok();
  json["wrong"] = wrong.message();
  return AuditReport{wrong.ok(), Text(json)};
}

std::string ReportEvents(std::span<const TimedEvent> events, std::size_t last) {
  const std::optional<SampleOrder> order = FindSampleOrder(events);
  return ReportTimeline(MakeTimeline(events, order ? order->stages : 0), last);
}

std::string ReportTimeline(const RunTimeline& timeline, std::size_t last) {
  const std::vector<TimelineEntry>& entries = timeline.entries();
  std::uint64_t generations = 0, lost = 0;
  double seconds = 0;
  for (const TimelineEntry& entry : entries) {
    if (entry.kind != TimelineEntry::Kind::kRepair) continue;
    ++generations;
    lost += entry.repair.steps_lost;
    seconds += entry.repair.seconds_without_step.value_or(0);
  }
  Json json = Header(timeline.run());
  json["generations"] = generations;
  json["stepsLost"] = lost;
  json["secondsWithoutStep"] = seconds;
  json["entries"] = entries.size();
  json["events"] = Json::array();
  const std::size_t first = last == 0 || last >= entries.size() ? 0 : entries.size() - last;
  for (std::size_t i = first; i < entries.size(); ++i) {
    json["events"].push_back(EntryJson(entries[i], timeline.names()));
  }
  return Text(json);
}

}  // namespace shoal::scheduler
