#include "scheduler/server/run_status.h"

#include <cmath>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/nesting.h"
#include "common/version.h"
#include "net/http/status_fields.h"
#include "net/http/status_writer.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;
using net::ForeignJson;
using net::StatusList;
using net::StatusObject;
using net::StatusValue;

StatusObject RunValues(const RunConfig& config, const RunView& view) {
  StatusList held_out;
  for (const auto& [step, loss] : view.held_out) held_out.push_back(StatusList{step, loss});
  const bool measured = !view.held_out.empty();
  return {{"id", config.run.ToHex()},
          {"name", config.name},
          {"withoutWeights", config.without_weights},
          {"state", RunStateName(view.state)},
          {"reason", view.reason},
          {"generation", view.generation},
          {"step", view.step},
          {"steps", view.steps},
          {"loss", view.loss},
          {"losses", view.losses},
          {"heldOutLoss", measured ? StatusValue(view.held_out.back().loss) : StatusValue()},
          {"heldOutStep", measured ? StatusValue(view.held_out.back().step) : StatusValue()},
          {"heldOut", held_out},
          {"samplesPerSecond", view.samples_per_second},
          {"stepSeconds", view.step_seconds},
          {"controlSeconds", view.seconds_in_control},
          {"lastStepSeconds", view.last_step_seconds},
          {"checkpointStep", view.checkpoint_step},
          {"checkpointEvery", view.checkpoint_every},
          {"skippedSteps", view.skipped_steps},
          {"lastSkipped", view.last_skipped},
          {"samplesPerStep", std::uint64_t{config.micro_batches} * config.micro_batch_rows}};
}

// The peer's own status as scheduler/peers/peer_status.h let it in; nothing before it said one.
Json PeerStatus(const MemberView& member) {
  Json status = ParseJson<Json>(member.status_json);
  return status.is_object() ? status : Json::object();
}

ForeignJson Foreign(const Json& json) {
  return {json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

StatusList MembersValues(const RunView& view) {
  StatusList members;
  for (const MemberView& member : view.members) {
    Json status = PeerStatus(member);
    // What it said last of its links is no longer so.
    if (!member.connected && status.contains("links")) status["links"] = Json::array();
    members.push_back(StatusObject{{"peer", member.peer.ToHex()},
                                   {"name", member.name},
                                   {"device", member.device},
                                   {"address", member.address},
                                   {"state", member.state},
                                   {"connected", member.connected},
                                   {"wantsStage", member.wants_stage},
                                   {"quarantine", member.quarantine},
                                   {"quarantineSeconds", member.quarantine_s},
                                   {"pipeline", member.pipeline},
                                   {"stage", member.stage},
                                   {"lastHeardSeconds", member.last_heard_s},
                                   {"links", Foreign(status.value("links", Json::array()))},
                                   {"status", Foreign(status)}});
  }
  return members;
}

// Pipelines whose peers of a stage share a LAN, by LAN.
StatusList LansValues(const RunView& view, std::size_t stage) {
  std::map<std::uint32_t, std::vector<std::size_t>> lans;
  if (stage < view.lans.size()) {
    for (std::size_t p = 0; p < view.lans[stage].size(); ++p) {
      if (view.lans[stage][p] > 0) lans[view.lans[stage][p]].push_back(p);
    }
  }
  StatusList lists;
  for (const auto& [lan, pipelines] : lans) lists.push_back(pipelines);
  return lists;
}

StatusObject TimingValues(const control::v1::StageTiming& timing) {
  return {{"forwardMs", timing.forward_ms()},
          {"backwardMs", timing.backward_ms()},
          {"backwardWeightsMs", timing.backward_weights_ms()},
          {"roundTripMs", timing.round_trip_ms()},
          {"sendForwardMs", timing.send_forward_ms()},
          {"sendBackwardMs", timing.send_backward_ms()},
          {"microBatchBytes", timing.micro_batch_bytes()},
          {"pendingWeightsBytes", timing.pending_weights_bytes()}};
}

StatusList StagesValues(const RunConfig& config, const RunView& view) {
  StatusList stages;
  for (std::uint32_t s = 0; s < config.stages; ++s) {
    StatusObject stage = {{"stage", s}};
    if (s + 1 < config.stage_first_layers.size()) {
      stage.push_back(
          {"layers", StatusList{config.stage_first_layers[s], config.stage_first_layers[s + 1]}});
    }
    StatusList peers;
    for (const MemberView& member : view.members) {
      if (member.stage == static_cast<std::int32_t>(s)) peers.push_back(member.peer.ToHex());
    }
    stage.push_back({"peers", std::move(peers)});
    stage.push_back({"lans", LansValues(view, s)});
    if (s < view.timings.size()) stage.push_back({"timing", TimingValues(view.timings[s])});
    stages.push_back(std::move(stage));
  }
  return stages;
}

StatusObject ConsistencyValues(const RunView& view) {
  return {{"mChecks", view.m_checks},
          {"mMismatches", view.m_mismatches},
          {"weightChecks", view.weight_checks},
          {"weightMismatches", view.weight_mismatches},
          {"lastDifference", view.last_difference},
          {"refusedValues", view.refused_values},
          {"lastRefused", view.last_refused},
          {"warning", view.warning}};
}

StatusObject SpotCheckValues(const SpotCounts& counts) {
  return {{"done", counts.done},
          {"failed", counts.failed},
          {"undecided", counts.undecided},
          {"missed", counts.missed},
          {"last", counts.last}};
}

StatusValue OrNull(const std::optional<std::uint64_t>& value) {
  return value ? StatusValue(*value) : StatusValue();
}

StatusObject StoreValues(const MirrorView& mirror) {
  return {{"address", mirror.address},          {"state", MirrorStateName(mirror.state)},
          {"step", OrNull(mirror.stored_step)}, {"pendingStep", OrNull(mirror.pending_step)},
          {"sentBytes", mirror.sent_bytes},     {"failures", mirror.failures},
          {"lastFailure", mirror.last_failure}};
}

StatusObject StandbyValues(const StandbyView& view) {
  return {{"schemaVersion", 2},
          {"program", "shoal-scheduler"},
          {"version", kVersion},
          {"role", "standby"},
          {"standby",
           StatusObject{{"run", view.run},
                        {"leader", view.leader},
                        {"leaderSeenSeconds",
                         view.leader_seen_s ? StatusValue(*view.leader_seen_s) : StatusValue()},
                        {"events", view.events},
                        {"missingFiles", view.missing_files}}},
          {"uptimeSeconds", view.uptime_s}};
}

// What does not grow with run and members. Its names, order and metrics, and those of the rest,
// are those of net/http/run_status_fields.cc.
StatusObject SummaryValues(const RunConfig& config, const RunView& view, const ServerView& server) {
  const net::ControlStats& control = server.control;
  return {{"schemaVersion", 2},
          {"program", "shoal-scheduler"},
          {"version", kVersion},
          {"role", "leader"},
          {"run", RunValues(config, view)},
          {"pipelines", config.pipelines},
          {"peersNeeded", std::uint64_t{config.stages} * config.pipelines},
          {"codecs", StatusObject{{"forward", config.forward},
                                  {"backward", config.backward},
                                  {"replica", config.replica_method}}},
          {"consistency", ConsistencyValues(view)},
          {"spotChecks", SpotCheckValues(view.spot_checks)},
          {"checkpointStore", StoreValues(server.mirror)},
          {"logs", StatusObject{{"targets", server.logs.targets},
                                {"failures", server.logs.failures},
                                {"lastFailure", server.logs.last_failure}}},
          {"traffic", StatusObject{{"sentWireBytes", control.sent_wire_bytes},
                                   {"receivedWireBytes", control.received_wire_bytes},
                                   {"artefactSentBytes", control.artefact_sent_bytes},
                                   {"artefactReceivedBytes", control.artefact_received_bytes}}},
          {"contentBytes", server.content_bytes},
          {"diskFreeBytes", OrNull(server.disk_free_bytes)},
          {"port", server.peer_port},
          {"statusAddress", server.status_address},
          {"uptimeSeconds", server.uptime_s}};
}

// Counts of members, which the status has one by one.
void AddPeerMetrics(const RunConfig& config, const RunView& view, net::MetricFamilies* out) {
  std::size_t placed = 0, spare = 0, away = 0;
  for (const MemberView& member : view.members) {
    if (!member.connected) {
      ++away;
    } else if (member.stage >= 0) {
      ++placed;
    } else {
      ++spare;
    }
  }
  for (const auto& [role, count] :
       {std::pair{"stage", placed}, std::pair{"spare", spare}, std::pair{"away", away}}) {
    out->Gauge("shoal_peers", "Members by what they do.", static_cast<double>(count),
               {{"role", role}});
  }
  for (std::uint32_t s = 0; s < config.stages; ++s) {
    std::size_t count = 0;
    for (const MemberView& member : view.members) {
      if (member.connected && member.stage == static_cast<std::int32_t>(s)) ++count;
    }
    out->Gauge("shoal_stage_peers", "Connected peers of a stage.", static_cast<double>(count),
               {{"stage", std::to_string(s)}});
  }
}

}  // namespace

std::string StatusJson(const RunConfig& config, const RunView& view, const ServerView& server) {
  StatusObject status = SummaryValues(config, view, server);
  status.push_back({"members", MembersValues(view)});
  status.push_back({"stages", StagesValues(config, view)});
  return net::StatusText(net::RunStatusTree(), status);
}

std::string MetricsText(const RunConfig& config, const RunView& view, const ServerView& server) {
  net::MetricFamilies metrics;
  net::AddMetrics(net::RunStatusTree(), SummaryValues(config, view, server), &metrics);
  AddPeerMetrics(config, view, &metrics);
  return metrics.Text();
}

std::string StandbyJson(const StandbyView& view) {
  return net::StatusText(net::RunStatusTree(), StandbyValues(view));
}

std::string StandbyMetrics(const StandbyView& view) {
  net::MetricFamilies metrics;
  net::AddMetrics(net::RunStatusTree(), StandbyValues(view), &metrics);
  return metrics.Text();
}

std::string ModelCard(const RunConfig& config, const RunView& view, const dataset::DataInfo& data) {
  std::string text = "# " + config.name + "\n\nFine-tuned by a swarm of peers with shoal " +
                     kVersion + ".\n\n| | |\n|---|---|\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    text += "| " + name + " | " + value + " |\n";
  };
  row("run", config.run.ToHex());
  row("steps", std::to_string(view.checkpoint_step) + " of " + std::to_string(view.steps));
  if (view.checkpoint_step > 0 && view.checkpoint_step <= view.losses.size()) {
    row("loss of the last of these steps", std::to_string(view.losses[view.checkpoint_step - 1]));
  }
  row("samples per step",
      std::to_string(std::uint64_t{config.micro_batches} * config.micro_batch_rows) + " rows of " +
          std::to_string(config.row_tokens) + " tokens");
  row("training rows", std::to_string(data.train_rows));
  row("SHA-256 of the text", data.text_sha256);
  row("SHA-256 of the tokenizer", data.tokenizer_fingerprint);
  row("stages x pipelines",
      std::to_string(config.stages) + " x " + std::to_string(config.pipelines));
  row("forward codec", config.forward);
  row("backward codec", config.backward);
  row("seed", std::to_string(config.seed));
  text += "\nPeers:\n\n";
  for (const MemberView& member : view.members) {
    // Names are chosen by volunteers: letters, digits and a few signs only.
    std::string name;
    for (const char c : member.name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == ' ';
      name += plain ? c : '?';
    }
    text += "- " + name + " (" + member.peer.ToHex() + ")\n";
  }
  return text;
}

}  // namespace shoal::scheduler
