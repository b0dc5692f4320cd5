#include "scheduler/history/stored_event.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "common/nesting.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/history/json_number.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

std::string ToHex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

Result<std::string> FromHex(const std::string& hex) {
  // 32 bytes, the same form as a peer's key.
  SHOAL_ASSIGN_OR_RETURN(const PeerId parsed, PeerId::FromHex(hex));
  return std::string(reinterpret_cast<const char*>(parsed.key.data()), parsed.key.size());
}

Json ToJson(const RunBegan& e) {
  // A 64-bit hash does not fit a JSON number of every reader.
  return {{"type", "run"}, {"run", e.run.ToHex()}, {"config", RunId{e.config_hash}.ToHex()}};
}
Json ToJson(const SampleOrder& e) {
  return {{"type", "order"},
          {"seed", RunId{e.seed}.ToHex()},
          {"train_rows", e.train_rows},
          {"micro_batches", e.micro_batches},
          {"micro_batch_rows", e.micro_batch_rows},
          {"stages", e.stages}};
}
Json ToJson(const SchedulerStarted&) { return {{"type", "scheduler"}}; }
// The field is there only where it says something.
Json WithUnstored(Json json, std::uint64_t unstored) {
  if (unstored > 0) json["unstored"] = unstored;
  return json;
}
Json ToJson(const MemberCame& e) {
  return WithUnstored({{"type", "came"}, {"peer", e.peer.ToHex()}, {"name", e.name}}, e.unstored);
}
Json ToJson(const MemberGone& e) {
  return WithUnstored(
      {{"type", "gone"}, {"peer", e.peer.ToHex()}, {"name", e.name}, {"reason", e.reason}},
      e.unstored);
}
Json ToJson(const RunStarted&) { return {{"type", "started"}}; }
Json ToJson(const PlanMade& e) {
  Json json = {{"type", "plan"}, {"generation", e.generation}, {"step", e.resume_step}};
  for (const PeerId& host : e.hosts) json["hosts"].push_back(host.ToHex());
  if (e.homes.count == 0) return json;
  json["homes"] = e.homes.of;
  json["home_count"] = e.homes.count;
  return json;
}
Json ToJson(const PipelinesCount& e) {
  Json json = {{"type", "counting"}, {"step", e.step}, {"pipelines", e.pipelines}};
  if (e.dealt_until > 0) json["dealt_until"] = e.dealt_until;
  if (!e.cause.empty()) json["cause"] = e.cause;
  if (!e.lost.empty()) json["lost"] = e.lost;
  if (!e.gone.empty()) json["gone"] = e.gone;
  return json;
}
Json ToJson(const GenerationEnded& e) {
  Json json = {{"type", "ended"}, {"step", e.step}, {"cause", e.cause}};
  if (e.idle_ms) json["idle_ms"] = *e.idle_ms;
  return json;
}
Json ToJson(const GenerationGoesOn& e) { return {{"type", "goes_on"}, {"step", e.step}}; }
Json ToJson(const LossesKnown& e) {
  return {{"type", "losses"}, {"first", e.first_step}, {"values", e.losses}};
}
Json ToJson(const HeldOutMeasured& e) {
  return {{"type", "held_out"}, {"step", e.step}, {"loss", e.loss}};
}
Json ToJson(const StepSkipped& e) {
  return {{"type", "skipped"}, {"step", e.step}, {"cause", e.cause}};
}
Json ToJson(const CheckpointMade& e) {
  Json files = Json::array();
  for (const control::v1::ArtefactRef& file : e.files) {
    files.push_back({{"name", file.name()}, {"hash", ToHex(file.hash())}, {"size", file.size()}});
  }
  return {{"type", "checkpoint"}, {"step", e.step}, {"files", std::move(files)}};
}
Json ToJson(const RunHeld& e) { return {{"type", "held"}, {"reason", e.reason}}; }
Json ToJson(const RunReleased&) { return {{"type", "released"}}; }
Json ToJson(const RunRestored& e) {
  return {{"type", "restored"}, {"step", e.step}, {"generation", e.generation}};
}
Json ToJson(const RunFinished& e) { return {{"type", "finished"}, {"steps", e.steps}}; }

Json ToJson(const InviteMade& e) {
  return {{"type", "invite"},
          {"key", PeerId{e.key.key}.ToHex()},
          {"name", e.name},
          {"uses", e.uses},
          {"expires", e.expires_ms}};
}
Json ToJson(const InviteRevoked& e) { return {{"type", "revoked"}, {"invite", e.invite.ToHex()}}; }
Json ToJson(const MemberJoined& e) {
  return {
      {"type", "joined"}, {"peer", e.peer.ToHex()}, {"name", e.name}, {"invite", e.invite.ToHex()}};
}
Json ToJson(const MemberKicked& e) {
  return {{"type", "kicked"}, {"peer", e.peer.ToHex()}, {"reason", e.reason}};
}
Json ToJson(const MemberTakenBack& e) { return {{"type", "taken_back"}, {"peer", e.peer.ToHex()}}; }
Json ToJson(const MemberFault& e) {
  Json json = {{"type", "fault"},
               {"peer", e.peer.ToHex()},
               {"kind", FaultKindName(e.kind)},
               {"cause", e.cause}};
  if (e.quarantine_ms > 0) json["quarantine_ms"] = e.quarantine_ms;
  return json;
}
Json ToJson(const MemberPardoned& e) { return {{"type", "pardoned"}, {"peer", e.peer.ToHex()}}; }

Result<StoredEvent> CheckpointFrom(const Json& json) {
  CheckpointMade made;
  made.step = WholeNumber<std::uint64_t>(json.at("step"));
  for (const Json& entry : json.at("files")) {
    control::v1::ArtefactRef file;
    file.set_name(entry.at("name").get<std::string>());
    SHOAL_ASSIGN_OR_RETURN(*file.mutable_hash(), FromHex(entry.at("hash").get<std::string>()));
    file.set_size(WholeNumber<std::uint64_t>(entry.at("size")));
    made.files.push_back(std::move(file));
  }
  return StoredEvent(std::move(made));
}

Result<StoredEvent> PlanFrom(const Json& json) {
  PlanMade made;
  made.generation = WholeNumber<std::uint64_t>(json.at("generation"));
  made.resume_step = WholeNumber<std::uint64_t>(json.at("step"));
  for (const Json& host : json.value("hosts", Json::array())) {
    SHOAL_ASSIGN_OR_RETURN(const PeerId peer, PeerId::FromHex(host.get<std::string>()));
    made.hosts.push_back(peer);
  }
  if (!json.contains("homes") && !json.contains("home_count")) return StoredEvent(std::move(made));
  if (!json.at("homes").is_array()) return DataLoss("homes of pipelines are no list");
  made.homes.count = WholeNumber<std::uint32_t>(json.at("home_count"));
  std::set<std::uint32_t> homes;
  for (const Json& entry : json.at("homes")) {
    made.homes.of.push_back(WholeNumber<std::uint32_t>(entry));
    if (made.homes.of.back() >= made.homes.count || !homes.insert(made.homes.of.back()).second) {
      return DataLoss("a plan gives a pipeline a home that is not there, or two of them one");
    }
  }
  return StoredEvent(std::move(made));
}

Result<StoredEvent> OrderFrom(const Json& json) {
  SampleOrder order;
  SHOAL_ASSIGN_OR_RETURN(const RunId seed, RunId::FromHex(json.at("seed").get<std::string>()));
  order.seed = seed.value;
  order.train_rows = WholeNumber<std::uint64_t>(json.at("train_rows"));
  order.micro_batches = WholeNumber<std::uint32_t>(json.at("micro_batches"));
  order.micro_batch_rows = WholeNumber<std::uint32_t>(json.at("micro_batch_rows"));
  order.stages = WholeNumber<std::uint32_t>(json.at("stages"));
  return StoredEvent(order);
}

std::uint64_t UnstoredOf(const Json& json) {
  return json.contains("unstored") ? WholeNumber<std::uint64_t>(json.at("unstored")) : 0;
}

Result<StoredEvent> CameFrom(const Json& json) {
  SHOAL_ASSIGN_OR_RETURN(const PeerId peer, PeerId::FromHex(json.at("peer").get<std::string>()));
  return StoredEvent(MemberCame{peer, json.at("name").get<std::string>(), UnstoredOf(json)});
}

Result<StoredEvent> GoneFrom(const Json& json) {
  SHOAL_ASSIGN_OR_RETURN(const PeerId peer, PeerId::FromHex(json.at("peer").get<std::string>()));
  return StoredEvent(MemberGone{peer, json.at("name").get<std::string>(),
                                json.at("reason").get<std::string>(), UnstoredOf(json)});
}

Result<StoredEvent> EndedFrom(const Json& json) {
  GenerationEnded ended{WholeNumber<std::uint64_t>(json.at("step")),
                        json.at("cause").get<std::string>()};
  if (json.contains("idle_ms")) ended.idle_ms = WholeNumber<std::uint64_t>(json.at("idle_ms"));
  return StoredEvent(std::move(ended));
}

Result<std::vector<std::uint32_t>> PipelinesFrom(const Json& json, const std::string& which) {
  if (!json.is_array()) return DataLoss("pipelines that " + which + " are no list");
  std::vector<std::uint32_t> pipelines;
  for (const Json& entry : json) {
    const auto pipeline = WholeNumber<std::uint32_t>(entry);
    if (!pipelines.empty() && pipelines.back() >= pipeline) {
      return DataLoss("pipelines that " + which + " are not in ascending order");
    }
    pipelines.push_back(pipeline);
  }
  return pipelines;
}

Result<std::vector<Position>> PositionsFrom(const Json& json) {
  std::vector<Position> positions;
  for (const Json& entry : json) {
    if (entry.size() != 2) return DataLoss("a position in a plan is no pipeline and stage");
    const Position position(WholeNumber<std::uint32_t>(entry.at(0)),
                            WholeNumber<std::uint32_t>(entry.at(1)));
    if (!positions.empty() && position <= positions.back()) {
      return DataLoss("positions that nobody has are not in ascending order");
    }
    positions.push_back(position);
  }
  return positions;
}

Result<StoredEvent> CountingFrom(const Json& json) {
  PipelinesCount count;
  count.step = WholeNumber<std::uint64_t>(json.at("step"));
  SHOAL_ASSIGN_OR_RETURN(count.pipelines, PipelinesFrom(json.at("pipelines"), "count"));
  if (json.contains("lost")) {
    SHOAL_ASSIGN_OR_RETURN(count.lost, PositionsFrom(json.at("lost")));
  }
  if (json.contains("gone")) {
    SHOAL_ASSIGN_OR_RETURN(count.gone, PipelinesFrom(json.at("gone"), "are gone"));
  }
  if (count.pipelines.empty()) return DataLoss("no pipeline counts");
  if (json.contains("cause")) count.cause = json.at("cause").get<std::string>();
  if (json.contains("dealt_until")) {
    count.dealt_until = WholeNumber<std::uint64_t>(json.at("dealt_until"));
    if (count.dealt_until <= count.step || count.dealt_until - count.step > kDealtStepsMax) {
      return DataLoss("steps that no plan deals out are dealt out again");
    }
  }
  return StoredEvent(std::move(count));
}

// Of a member's faults.
Result<StoredEvent> ConductFrom(const std::string& type, const Json& json) {
  SHOAL_ASSIGN_OR_RETURN(const PeerId peer, PeerId::FromHex(json.at("peer").get<std::string>()));
  if (type == "pardoned") return StoredEvent(MemberPardoned{peer});
  MemberFault fault{peer, FaultKind::kWeights, json.at("cause").get<std::string>()};
  const std::string kind = json.at("kind").get<std::string>();
  constexpr std::array kKinds = {FaultKind::kWeights, FaultKind::kValues, FaultKind::kOutputs,
                                 FaultKind::kFailures};
  const auto* const known = std::find_if(
      kKinds.begin(), kKinds.end(), [&](FaultKind each) { return FaultKindName(each) == kind; });
  if (known == kKinds.end()) return DataLoss("unknown kind of fault '" + kind + "'");
  fault.kind = *known;
  if (json.contains("quarantine_ms")) {
    fault.quarantine_ms = WholeNumber<std::uint64_t>(json.at("quarantine_ms"));
  }
  return StoredEvent(std::move(fault));
}

// What is about invites and members' keys; not found: another type.
Result<StoredEvent> AdmissionFrom(const std::string& type, const Json& json) {
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  if (type == "invite") {
    SHOAL_ASSIGN_OR_RETURN(const PeerId key, PeerId::FromHex(text("key")));
    return StoredEvent(InviteMade{{key.key},
                                  text("name"),
                                  WholeNumber<std::uint64_t>(json.at("uses")),
                                  WholeNumber<std::uint64_t>(json.at("expires"))});
  }
  if (type == "revoked") {
    SHOAL_ASSIGN_OR_RETURN(const InviteId invite, InviteId::FromHex(text("invite")));
    return StoredEvent(InviteRevoked{invite});
  }
  if (type == "fault" || type == "pardoned") return ConductFrom(type, json);
  if (type != "joined" && type != "kicked" && type != "taken_back") {
    return NotFound("unknown event type '" + type + "'");
  }
  SHOAL_ASSIGN_OR_RETURN(const PeerId peer, PeerId::FromHex(text("peer")));
  if (type == "kicked") return StoredEvent(MemberKicked{peer, text("reason")});
  if (type == "taken_back") return StoredEvent(MemberTakenBack{peer});
  SHOAL_ASSIGN_OR_RETURN(const InviteId invite, InviteId::FromHex(text("invite")));
  return StoredEvent(MemberJoined{peer, text("name"), invite});
}

Result<StoredEvent> FromJson(const Json& json) {
  const std::string type = json.at("type").get<std::string>();
  const auto number = [&](const char* key) { return WholeNumber<std::uint64_t>(json.at(key)); };
  if (type == "run") {
    SHOAL_ASSIGN_OR_RETURN(const RunId run, RunId::FromHex(json.at("run").get<std::string>()));
    SHOAL_ASSIGN_OR_RETURN(const RunId hash, RunId::FromHex(json.at("config").get<std::string>()));
    return StoredEvent(RunBegan{run, hash.value});
  }
  if (type == "order") return OrderFrom(json);
  if (type == "started") return StoredEvent(RunStarted{});
  if (type == "scheduler") return StoredEvent(SchedulerStarted{});
  if (type == "came") return CameFrom(json);
  if (type == "gone") return GoneFrom(json);
  if (type == "plan") return PlanFrom(json);
  if (type == "counting") return CountingFrom(json);
  if (type == "ended") return EndedFrom(json);
  if (type == "goes_on") return StoredEvent(GenerationGoesOn{number("step")});
  if (type == "losses") {
    LossesKnown known{number("first"), json.at("values").get<std::vector<double>>()};
    for (const double loss : known.losses) {
      if (!std::isfinite(loss)) return DataLoss("a stored loss is not finite");
    }
    return StoredEvent(std::move(known));
  }
  if (type == "held_out") {
    const HeldOutMeasured measured{number("step"), json.at("loss").get<double>()};
    if (!std::isfinite(measured.loss)) return DataLoss("a stored held-out loss is not finite");
    return StoredEvent(measured);
  }
  if (type == "skipped") {
    return StoredEvent(StepSkipped{number("step"), json.at("cause").get<std::string>()});
  }
  if (type == "checkpoint") return CheckpointFrom(json);
  if (type == "held") return StoredEvent(RunHeld{json.at("reason").get<std::string>()});
  if (type == "released") return StoredEvent(RunReleased{});
  if (type == "finished") return StoredEvent(RunFinished{number("steps")});
  if (type == "restored") return StoredEvent(RunRestored{number("step"), number("generation")});
  return AdmissionFrom(type, json);
}

}  // namespace

std::string_view FaultKindName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kWeights: return "weights";
    case FaultKind::kValues: return "values";
    case FaultKind::kOutputs: return "outputs";
    case FaultKind::kFailures: break;
  }
  return "failures";
}

std::string EncodeEvent(const StoredEvent& event) {
  const Json json = std::visit([](const auto& e) { return ToJson(e); }, event);
  // Names come from peers' messages: bytes that are not UTF-8 are replaced, never thrown upon.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string StampEvent(std::string event, std::uint64_t at_ms) {
  SHOAL_CHECK(event.ends_with('}'));
  event.pop_back();
  return event + ",\"at\":" + std::to_string(at_ms) + "}";
}

Result<TimedEvent> DecodeTimedEvent(std::string_view bytes) {
  const Json json = ParseJson<Json>(bytes);
  if (!json.is_object()) return DataLoss("an event of the log is not a JSON object");
  try {
    auto event = FromJson(json);
    if (!event.ok()) return DataLoss(event.status().message());
    TimedEvent timed{*std::move(event)};
    if (json.contains("at")) timed.at_ms = WholeNumber<std::uint64_t>(json.at("at"));
    return timed;
  } catch (const Json::exception& error) {
    return DataLoss(std::string("an event of the log lacks a field: ") + error.what());
  }
}

Result<StoredEvent> DecodeEvent(std::string_view bytes) {
  SHOAL_ASSIGN_OR_RETURN(TimedEvent timed, DecodeTimedEvent(bytes));
  return std::move(timed.event);
}

}  // namespace shoal::scheduler
