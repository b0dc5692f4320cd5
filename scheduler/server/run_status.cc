#include "scheduler/server/run_status.h"

#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "common/nesting.h"
#include "common/version.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

Json RunJson(const RunConfig& config, const RunView& view) {
  return {{"id", config.run.ToHex()},
          {"name", config.name},
          {"bench", config.synthetic},
          {"state", RunStateName(view.state)},
          {"reason", view.reason},
          {"generation", view.generation},
          {"step", view.step},
          {"steps", view.steps},
          {"loss", view.loss},
          {"losses", view.losses},
          {"samplesPerSecond", view.samples_per_second},
          {"stepSeconds", view.step_seconds},
          {"controlSeconds", view.seconds_in_control},
          {"lastStepSeconds", view.last_step_seconds},
          {"checkpointStep", view.checkpoint_step},
          {"samplesPerStep", std::uint64_t{config.micro_batches} * config.micro_batch_rows}};
}

// The peer's own status as scheduler/swarm/peer_status.h let it in; nothing before it said one.
Json PeerStatus(const MemberView& member) {
  Json status = ParseJson<Json>(member.status_json);
  return status.is_object() ? status : Json::object();
}

Json MembersJson(const RunView& view) {
  Json members = Json::array();
  for (const MemberView& member : view.members) {
    Json status = PeerStatus(member);
    // What it said last of its links is no longer so.
    if (!member.connected && status.contains("links")) status["links"] = Json::array();
    members.push_back({{"peer", member.peer.ToHex()},
                       {"name", member.name},
                       {"device", member.device},
                       {"address", member.address},
                       {"state", member.state},
                       {"connected", member.connected},
                       {"wantsStage", member.wants_stage},
                       {"pipeline", member.pipeline},
                       {"stage", member.stage},
                       {"lastHeardSeconds", member.last_heard_s},
                       {"links", status.value("links", Json::array())},
                       {"status", status}});
  }
  return members;
}

// Pipelines whose peers of a stage share a LAN, by LAN.
Json LansJson(const RunView& view, std::size_t stage) {
  std::map<std::uint32_t, Json> lans;
  if (stage < view.lans.size()) {
    for (std::size_t p = 0; p < view.lans[stage].size(); ++p) {
      if (view.lans[stage][p] > 0) lans[view.lans[stage][p]].push_back(p);
    }
  }
  Json json = Json::array();
  for (auto& [lan, pipelines] : lans) json.push_back(std::move(pipelines));
  return json;
}

Json StagesJson(const RunConfig& config, const RunView& view) {
  Json stages = Json::array();
  for (std::uint32_t s = 0; s < config.stages; ++s) {
    Json stage = {{"stage", s}};
    if (s + 1 < config.stage_first_layers.size()) {
      stage["layers"] = {config.stage_first_layers[s], config.stage_first_layers[s + 1]};
    }
    Json peers = Json::array();
    for (const MemberView& member : view.members) {
      if (member.stage == static_cast<std::int32_t>(s)) peers.push_back(member.peer.ToHex());
    }
    stage["peers"] = std::move(peers);
    stage["lans"] = LansJson(view, s);
    if (s < view.timings.size()) {
      const control::v1::StageTiming& t = view.timings[s];
      stage["timing"] = {{"forwardMs", t.forward_ms()},
                         {"backwardMs", t.backward_ms()},
                         {"backwardWeightsMs", t.backward_weights_ms()},
                         {"roundTripMs", t.round_trip_ms()},
                         {"sendForwardMs", t.send_forward_ms()},
                         {"sendBackwardMs", t.send_backward_ms()},
                         {"microBatchBytes", t.micro_batch_bytes()},
                         {"pendingWeightsBytes", t.pending_weights_bytes()}};
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace

std::string StatusJson(const RunConfig& config, const RunView& view, const ServerView& server) {
  const net::ControlStats& control = server.control;
  const Json json = {{"schemaVersion", 2},
                     {"program", "shoal-scheduler"},
                     {"version", kVersion},
                     {"run", RunJson(config, view)},
                     {"members", MembersJson(view)},
                     {"stages", StagesJson(config, view)},
                     {"pipelines", config.pipelines},
                     {"peersNeeded", std::uint64_t{config.stages} * config.pipelines},
                     {"codecs",
                      {{"forward", config.forward},
                       {"backward", config.backward},
                       {"replica", config.replica_method}}},
                     {"consistency",
                      {{"mChecks", view.m_checks},
                       {"mMismatches", view.m_mismatches},
                       {"weightChecks", view.weight_checks},
                       {"weightMismatches", view.weight_mismatches},
                       {"lastDifference", view.last_difference},
                       {"refusedValues", view.refused_values},
                       {"lastRefused", view.last_refused},
                       {"warning", view.warning}}},
                     {"traffic",
                      {{"sentWireBytes", control.sent_wire_bytes},
                       {"receivedWireBytes", control.received_wire_bytes},
                       {"artefactSentBytes", control.artefact_sent_bytes},
                       {"artefactReceivedBytes", control.artefact_received_bytes}}},
                     {"contentBytes", server.content_bytes},
                     {"port", server.peer_port},
                     {"statusAddress", server.status_address},
                     {"uptimeSeconds", server.uptime_s}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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
