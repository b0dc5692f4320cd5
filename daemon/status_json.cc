#include "daemon/status_snapshot.h"

#include <optional>
#include <utility>

#include "daemon/boundary_health.h"
#include "net/http/status_fields.h"
#include "net/http/status_writer.h"

namespace shoal::daemon {
namespace {

using net::StatusList;
using net::StatusObject;
using net::StatusValue;

double Ratio(std::uint64_t raw, std::uint64_t wire) {
  return wire == 0 ? 0.0 : static_cast<double>(raw) / static_cast<double>(wire);
}

void Add(const replica::KindBytes& from, replica::KindBytes* to) {
  to->raw_sent += from.raw_sent;
  to->wire_sent += from.wire_sent;
  to->raw_received += from.raw_received;
  to->wire_received += from.wire_received;
}

StatusObject KindValues(const replica::KindBytes& bytes) {
  return {
      {"wireSentBytes", bytes.wire_sent},
      {"rawSentBytes", bytes.raw_sent},
      {"wireReceivedBytes", bytes.wire_received},
      {"rawReceivedBytes", bytes.raw_received},
      {"ratio", Ratio(bytes.raw_sent + bytes.raw_received, bytes.wire_sent + bytes.wire_received)}};
}

// Payload bytes that a boundary link carried, both ways. Forward goes to the next stage and comes
// from the previous one, backward the other way round; so each kind and direction has one link.
struct LinkPayload {
  std::uint64_t raw_sent = 0, wire_sent = 0, raw_received = 0, wire_received = 0;
};

std::string BoundaryChannel(const StatusSnapshot& snapshot, std::uint32_t boundary) {
  return "boundary/" + std::to_string(snapshot.pipeline) + "/" + std::to_string(boundary);
}

// Nothing for links that carry fp32 only (stage group, tied embedding).
std::optional<LinkPayload> PayloadOf(const StatusSnapshot& snapshot, const net::LinkStats& link) {
  const replica::KindBytes& forward = snapshot.runner.forward;
  const replica::KindBytes& backward = snapshot.runner.backward;
  if (link.channel == BoundaryChannel(snapshot, snapshot.stage)) {
    return LinkPayload{forward.raw_sent, forward.wire_sent, backward.raw_received,
                       backward.wire_received};
  }
  if (snapshot.stage > 0 && link.channel == BoundaryChannel(snapshot, snapshot.stage - 1)) {
    return LinkPayload{backward.raw_sent, backward.wire_sent, forward.raw_received,
                       forward.wire_received};
  }
  return std::nullopt;
}

StatusObject LinkValues(const StatusSnapshot& snapshot, const net::LinkStats& link) {
  const auto name = snapshot.names.find(link.peer);
  const std::optional<LinkPayload> payload = PayloadOf(snapshot, link);
  StatusObject values = {
      {"peer", link.peer.ToHex()},
      {"name", name == snapshot.names.end() ? link.peer.ToShort() : name->second},
      {"channel", link.channel},
      {"kind", payload ? "boundary" : "replica"},
      {"address", link.address},
      {"path", link.path},
      {"connected", link.connected},
      {"connections", link.connections},
      {"rttMs", link.rtt_ms},
      {"rttMinMs", link.rtt_min_ms},
      {"upBps", link.connected ? link.send_bps : 0.0},
      {"downBps", link.connected ? link.receive_bps : 0.0},
      {"upCapBps", snapshot.upload_cap.value},
      {"downCapBps", snapshot.download_cap.value},
      {"sentWireBytes", link.sent_wire_bytes},
      {"receivedWireBytes", link.received_wire_bytes},
      {"sentFrames", link.sent_frames},
      {"receivedFrames", link.received_frames},
      {"queueBytes", link.queued_bytes},
      {"stallRateLimitMs", link.stall_rate_limit_ms},
      {"stallNetworkMs", link.stall_network_ms}};
  if (payload) {
    values.push_back({"sentRawBytes", payload->raw_sent});
    values.push_back({"sentPayloadBytes", payload->wire_sent});
    values.push_back({"receivedRawBytes", payload->raw_received});
    values.push_back({"receivedPayloadBytes", payload->wire_received});
  }
  values.push_back({"ratio", payload ? Ratio(payload->raw_sent + payload->raw_received,
                                             payload->wire_sent + payload->wire_received)
                                     : 1.0});
  return values;
}

StatusObject SwarmValues(const StatusSnapshot& snapshot) {
  StatusList losses;
  for (const auto& [step, loss] : snapshot.losses) losses.push_back(StatusList{step, loss});
  StatusList held_out;
  for (const auto& [step, loss] : snapshot.held_out) held_out.push_back(StatusList{step, loss});
  const bool measured = !snapshot.held_out.empty();
  return {{"id", snapshot.run_id},
          {"name", snapshot.run_name},
          {"state", snapshot.run_state},
          {"reason", snapshot.run_reason},
          {"step", snapshot.step},
          {"targetStep", snapshot.target_step},
          {"epochs", snapshot.epochs},
          {"targetEpochs", snapshot.target_epochs},
          {"loss", snapshot.loss},
          {"losses", losses},
          {"heldOutLoss", measured ? StatusValue(snapshot.held_out.back().second) : StatusValue()},
          {"heldOutStep", measured ? StatusValue(snapshot.held_out.back().first) : StatusValue()},
          {"heldOut", held_out},
          {"peersUp", snapshot.peers_up},
          {"peersTotal", snapshot.peers_total}};
}

StatusValue RoleValues(const StatusSnapshot& snapshot) {
  if (!snapshot.has_stage) return {};
  return StatusObject{{"stage", snapshot.stage},
                      {"stages", snapshot.stages},
                      {"pipeline", snapshot.pipeline},
                      {"pipelines", snapshot.pipelines},
                      {"layers", StatusList{snapshot.first_layer, snapshot.last_layer}},
                      {"generation", snapshot.generation},
                      {"forwardCodec", snapshot.forward_codec},
                      {"backwardCodec", snapshot.backward_codec},
                      {"replicaMethod", snapshot.replica_method},
                      {"lan", snapshot.lan}};
}

// Without gaps: the parts add up to the time since the links opened.
StatusList TimeValues(const pipeline::ActivityTimes& time) {
  StatusList parts;
  for (std::size_t i = 0; i < pipeline::kActivities; ++i) {
    const auto activity = static_cast<pipeline::Activity>(i);
    parts.push_back(
        StatusObject{{"activity", pipeline::ActivityName(activity)}, {"ms", time[activity]}});
  }
  return parts;
}

StatusValue OnHost(const pipeline::RunnerStats& runner) {
  std::string text;
  for (const std::string& part : runner.on_host) text += (text.empty() ? "" : "; ") + part;
  return text.empty() ? StatusValue() : StatusValue(text);
}

StatusObject WorkValues(const StatusSnapshot& snapshot) {
  const pipeline::RunnerStats& runner = snapshot.runner;
  return {{"step", runner.step},
          {"forwards", runner.forwards},
          {"backwards", runner.backwards},
          {"microBatches", runner.micro_batches},
          {"schedule", pipeline::ScheduleName(runner.bounds.schedule)},
          {"inFlightMax", runner.bounds.in_flight},
          {"pendingWeightsMax", runner.bounds.pending_weights_max},
          {"memoryMaxBytes", runner.bounds.memory_bytes},
          {"simulatedMs", runner.bounds.simulated_ms},
          {"unlimitedMs", runner.bounds.unlimited_ms},
          {"samplesPerSecond", snapshot.samples_per_second},
          {"encodeMs", runner.encode_ms},
          {"decodeMs", runner.decode_ms},
          {"storeMs", runner.store_ms},
          {"codecDeviceMs", runner.codec_device_ms},
          {"onHost", OnHost(runner)},
          {"time", TimeValues(runner.time)}};
}

// Nothing where nothing was measured.
StatusValue Average(const pipeline::RecentRatio& ratio) {
  return ratio.messages > 0 ? StatusValue(ratio.average) : StatusValue();
}
StatusValue Last(const pipeline::RecentRatio& ratio) {
  return ratio.messages > 0 ? StatusValue(ratio.last) : StatusValue();
}

// Nothing with a backward codec that sends nothing as low rank.
StatusValue LowRankValues(const std::optional<pipeline::LowRankStats>& seen) {
  if (!seen) return {};
  return StatusObject{{"messages", seen->low_rank.messages + seen->others.messages},
                      {"ratio", seen->share()},
                      {"bitsPerValue", seen->low_rank.bits_per_value()},
                      {"otherBitsPerValue", seen->others.bits_per_value()},
                      {"correlation", seen->correlation},
                      {"lazy", seen->lazy}};
}

// Of gradients that build on an m of their own.
StatusValue GradientVisits(const std::optional<pipeline::VisitStats>& seen) {
  if (!seen) return {};
  return StatusObject{
      {"mode", seen->mode ? StatusValue(compression::DeltaModeName(*seen->mode)) : StatusValue()},
      {"relativeDelta", Average(seen->relative_delta)},
      {"relativeDeltaP90", Average(seen->relative_delta_p90)},
      {"firstVisitRatio", Average(seen->without_m)},
      {"deltaHits", seen->delta_hits},
      {"firstVisits", seen->first_visits},
      {"resends", seen->resends}};
}

StatusList BoundariesValues(const StatusSnapshot& snapshot) {
  StatusList boundaries;
  for (const pipeline::BoundaryStats& end : snapshot.runner.boundaries) {
    boundaries.push_back(StatusObject{
        {"boundary", end.boundary},
        {"side", storage::BoundarySideName(end.side)},
        {"mode", end.mode ? StatusValue(compression::DeltaModeName(*end.mode)) : StatusValue()},
        {"relativeDelta", Average(end.relative_delta)},
        {"lastRelativeDelta", Last(end.relative_delta)},
        {"relativeDeltaP90", Average(end.relative_delta_p90)},
        {"forwardError", Average(end.forward_error)},
        {"lastForwardError", Last(end.forward_error)},
        {"backwardError", Average(end.backward_error)},
        {"lastBackwardError", Last(end.backward_error)},
        {"firstVisitRatio", Average(end.without_m)},
        {"lastFirstVisitRatio", Last(end.without_m)},
        {"deltaHits", end.delta_hits},
        {"firstVisits", end.first_visits},
        {"resends", end.resends},
        {"gradients", GradientVisits(end.gradients)},
        {"lowRank", LowRankValues(end.low_rank)}});
  }
  return boundaries;
}

StatusObject DeltaStoreValues(const StatusSnapshot& snapshot) {
  StatusList ends;
  for (const pipeline::BoundaryChecksum& end : snapshot.boundaries) {
    ends.push_back(StatusObject{{"boundary", end.boundary},
                                {"side", storage::BoundarySideName(end.side)},
                                {"checksum", RunId{end.checksum}.ToHex()},
                                {"records", end.records}});
  }
  const storage::DeltaStoreStats& store = snapshot.delta_store;
  return {{"bytes", store.bytes},
          {"limit", store.bytes_limit},
          {"records", store.records},
          {"hits", store.hits},
          {"misses", store.misses},
          {"corrupt", store.corrupt},
          {"evicted", store.evicted},
          {"lost", store.lost},
          {"diskBytes", store.disk_bytes},
          {"diskWrittenBytes", store.disk_written_bytes},
          {"committedBytes", store.committed_bytes},
          {"memoryBytes", store.memory_bytes + snapshot.runner.prefetch_bytes},
          {"memoryLimit", snapshot.store_memory_limit},
          {"prefetchedBytes", snapshot.runner.prefetch_bytes},
          {"stagedBytes", snapshot.runner.staged_bytes},
          {"trouble", store.trouble},
          {"notice", store.notice},
          {"deltaHits", snapshot.totals.delta_hits},
          {"firstVisits", snapshot.totals.first_visits},
          {"resends", snapshot.totals.resends},
          {"expectedBytes", snapshot.budget.delta_store_bytes},
          {"expectedDiskBytes", snapshot.budget.delta_disk_bytes},
          {"sampleBytes", snapshot.budget.delta_sample_bytes},
          {"residualSampleBytes", snapshot.budget.residual_sample_bytes},
          {"diskFreeBytes", snapshot.budget.disk_free_bytes},
          {"boundaries", std::move(ends)}};
}

StatusObject Finding(std::string_view code, std::string_view severity, std::string text,
                     std::string_view fix) {
  return {{"code", code}, {"severity", severity}, {"text", std::move(text)}, {"fix", fix}};
}

void AddHangHealth(const StatusSnapshot& snapshot, StatusList* health) {
  if (snapshot.hang.empty()) return;
  health->push_back(Finding("operation_hangs", "error", snapshot.hang,
                            "this peer takes no stage until that ends; look at the device and its "
                            "driver (dmesg), and start shoald again"));
}

void AddQuarantineHealth(const StatusSnapshot& snapshot, StatusList* health) {
  if (snapshot.quarantine.until_ms == 0) return;
  health->push_back(Finding("quarantine", "error", snapshot.quarantine.Text(), kQuarantineAdvice));
}

StatusValue QuarantineValues(const QuarantineNotice& quarantine) {
  if (quarantine.until_ms == 0) return {};
  return StatusObject{
      {"until", quarantine.until_ms}, {"kind", quarantine.kind}, {"faults", quarantine.faults}};
}

// Whom this peer cannot reach.
void AddConnectionHealth(const StatusSnapshot& snapshot, StatusList* health) {
  const SchedulerReport& scheduler = snapshot.scheduler;
  if (!scheduler.connected && !scheduler.trouble.empty()) {
    health->push_back(Finding("scheduler_unreachable", "error", scheduler.trouble,
                              "shoald tries again by itself; ask the organiser whether the "
                              "scheduler runs, and whether the invite is still right"));
  }
  if (!snapshot.link_trouble.empty()) {
    health->push_back(Finding("neighbour_unreachable", "error", snapshot.link_trouble,
                              "if it does not pass, one of the two must be reachable: give it a "
                              "fixed port with --listen 0.0.0.0:8782 and open or forward that "
                              "port"));
  }
}

// What the delta store will need and may not, or cannot, have.
void AddStoreSizeHealth(const StatusSnapshot& snapshot, StatusList* health) {
  const storage::DeltaStoreStats& store = snapshot.delta_store;
  const StageBudget& budget = snapshot.budget;
  if (store.bytes_limit > 0 && budget.delta_store_bytes > store.bytes_limit) {
    health->push_back(Finding("delta_store_quota", "warning",
                              "the delta store will need " + FormatBytes(budget.delta_store_bytes) +
                                  " but may use " + FormatBytes(store.bytes_limit) +
                                  ": samples beyond it travel as first visits",
                              "raise limits.delta_store in shoald.toml"));
  }
  if (budget.disk_free_bytes > 0 &&
      budget.delta_disk_bytes > budget.disk_free_bytes + store.disk_bytes) {
    health->push_back(Finding("delta_store_disk", "warning",
                              "the delta store's files may grow to " +
                                  FormatBytes(budget.delta_disk_bytes) + ", but only " +
                                  FormatBytes(budget.disk_free_bytes) + " of the disk were free",
                              "free some, set store.space = \"tight\", or lower "
                              "limits.delta_store in shoald.toml"));
  }
}

void AddStoreTroubleHealth(const storage::DeltaStoreStats& store, StatusList* health) {
  if (!store.trouble.empty()) {
    health->push_back(Finding(
        "delta_store_trouble", "error",
        "the delta store loses records: " + store.trouble + "; the run goes on with first visits",
        "give the disk space or repair it; training need not stop"));
  }
  if (!store.notice.empty()) {
    health->push_back(Finding("delta_store_notice", "warning", store.notice,
                              "nothing to do now; look for why if it happens again"));
  }
  if (store.trouble.empty() && store.lost > 0) {
    health->push_back(Finding("delta_store_lost", "warning",
                              std::to_string(store.lost) +
                                  " records of the delta store were lost to a failing disk and "
                                  "became first visits",
                              "check free space and health of the disk"));
  }
  if (store.corrupt > 0) {
    health->push_back(Finding(
        "delta_store_corrupt", "warning",
        std::to_string(store.corrupt) + " records of the delta store were damaged and dropped",
        "check the disk"));
  }
}

StatusList HealthValues(const StatusSnapshot& snapshot) {
  StatusList health;
  AddHangHealth(snapshot, &health);
  AddQuarantineHealth(snapshot, &health);
  AddConnectionHealth(snapshot, &health);
  AddStoreSizeHealth(snapshot, &health);
  AddStoreTroubleHealth(snapshot.delta_store, &health);
  for (const HealthEntry& entry : BoundaryHealth(snapshot)) {
    health.push_back(Finding(entry.code, "warning", entry.text, entry.fix));
  }
  return health;
}

StatusObject MemoryValues(const StatusSnapshot& snapshot) {
  const pipeline::RunnerStats& runner = snapshot.runner;
  return {{"stateBytes", snapshot.budget.state_bytes + runner.shard_bytes + runner.unit_peak_bytes},
          {"shardBytes", runner.shard_bytes},
          {"unitPeakBytes", runner.unit_peak_bytes},
          {"residentPeakBytes", snapshot.resident_peak_bytes},
          {"microBatchBytes", snapshot.budget.micro_batch_bytes}};
}

StatusObject TrafficValues(const StatusSnapshot& snapshot) {
  const net::ControlStats& control = snapshot.control;
  const TrafficTotals& totals = snapshot.totals;
  return {{"forward", KindValues(totals.forward)},
          {"backward", KindValues(totals.backward)},
          {"replica", KindValues(totals.replica)},
          {"control", StatusObject{{"wireSentBytes", control.sent_wire_bytes},
                                   {"wireReceivedBytes", control.received_wire_bytes},
                                   {"artefactSentBytes", control.artefact_sent_bytes},
                                   {"artefactReceivedBytes", control.artefact_received_bytes}}},
          {"linkSentWireBytes", totals.link_sent_wire_bytes},
          {"linkReceivedWireBytes", totals.link_received_wire_bytes},
          {"sentWireBytes", totals.link_sent_wire_bytes + control.sent_wire_bytes},
          {"receivedWireBytes", totals.link_received_wire_bytes + control.received_wire_bytes}};
}

StatusValue Told(std::optional<std::uint64_t> figure, double unit) {
  return figure ? StatusValue(static_cast<double>(*figure) / unit) : StatusValue();
}

StatusValue GpuValues(const std::optional<GpuReading>& gpu) {
  if (!gpu) return {};
  const bool memory = gpu->memory_bytes > 0;
  return StatusObject{
      {"name", gpu->name},
      {"powerWatts", Told(gpu->power_mw, 1000)},
      {"powerLimitWatts", Told(gpu->power_limit_mw, 1000)},
      {"busyRatio", Told(gpu->busy_percent, 100)},
      {"memoryUsedBytes", memory ? StatusValue(gpu->memory_used_bytes) : StatusValue()},
      {"memoryBytes", memory ? StatusValue(gpu->memory_bytes) : StatusValue()}};
}

StatusObject UsageValues(const Usage& usage) {
  const bool told = usage.energy_joules > 0;
  return {{"trainedMs", usage.trained_ms},
          {"microBatches", usage.micro_batches},
          {"sentBytes", usage.sent_bytes},
          {"receivedBytes", usage.received_bytes},
          {"energyJoules", told ? StatusValue(usage.energy_joules) : StatusValue()}};
}

StatusValue BudgetValues(const TermsReport& terms) {
  if (terms.budget_bytes == 0) return {};
  return StatusObject{{"usedBytes", terms.budget_used_bytes},
                      {"limitBytes", terms.budget_bytes},
                      {"resetsAt", terms.budget_resets_ms}};
}

// Whose names, order and metrics are those of net/http/peer_status_fields.cc.
StatusObject StatusValues(const StatusSnapshot& snapshot) {
  StatusList links;
  for (const net::LinkStats& link : snapshot.links) links.push_back(LinkValues(snapshot, link));
  StatusList relays;
  for (const net::RelayState& relay : snapshot.relays) {
    relays.push_back(StatusObject{{"relay", relay.relay},
                                  {"registered", relay.registered},
                                  {"seenAddress", relay.seen_address},
                                  {"ownAddress", relay.own_address},
                                  {"dialBack", !relay.reached   ? "unknown"
                                               : *relay.reached ? "reached"
                                                                : "not reached"},
                                  {"trouble", relay.trouble},
                                  {"rttMs", relay.rtt_ms}});
  }
  StatusValue bench;
  if (snapshot.synthetic_cpu_ms) bench = StatusObject{{"valuesCpuMs", *snapshot.synthetic_cpu_ms}};
  return {{"schemaVersion", 2},
          {"program", "shoald"},
          {"version", snapshot.version},
          {"peerId", snapshot.peer_id},
          {"name", snapshot.name},
          {"state", PeerStateName(snapshot.state)},
          {"stateReasons", snapshot.state_reasons},
          {"since", snapshot.since_unix_ms},
          {"time", snapshot.time_unix_ms},
          {"scheduler", StatusObject{{"connected", snapshot.scheduler.connected},
                                     {"addresses", snapshot.scheduler.addresses},
                                     {"trouble", snapshot.scheduler.trouble},
                                     {"rttMs", snapshot.scheduler.rtt_ms},
                                     {"upBps", snapshot.scheduler.up_bps},
                                     {"downBps", snapshot.scheduler.down_bps}}},
          {"swarm", SwarmValues(snapshot)},
          {"role", RoleValues(snapshot)},
          {"device", snapshot.device},
          {"gpu", GpuValues(snapshot.gpu)},
          {"bench", std::move(bench)},
          {"memory", MemoryValues(snapshot)},
          {"fetch", StatusObject{{"doneBytes", snapshot.fetch.bytes_done},
                                 {"totalBytes", snapshot.fetch.bytes_total}}},
          {"work", WorkValues(snapshot)},
          {"links", std::move(links)},
          {"relays", std::move(relays)},
          {"listenPort", snapshot.listen_port},
          {"mapping", StatusObject{{"address", snapshot.mapping.address},
                                   {"how", snapshot.mapping.how},
                                   {"trouble", snapshot.mapping.trouble}}},
          {"boundaries", BoundariesValues(snapshot)},
          {"traffic", TrafficValues(snapshot)},
          {"limits", StatusObject{{"upBps", snapshot.upload_cap.value},
                                  {"downBps", snapshot.download_cap.value},
                                  {"peerTimeoutMs", Milliseconds(snapshot.peer_timeout)}}},
          {"quarantine", QuarantineValues(snapshot.quarantine)},
          {"terms", StatusObject{{"reason", snapshot.terms.reason},
                                 {"until", snapshot.terms.until_ms},
                                 {"rules", snapshot.terms.rules},
                                 {"nextChange", snapshot.terms.next_change_ms}}},
          {"budget", BudgetValues(snapshot.terms)},
          {"pacing", StatusObject{{"mode", snapshot.pacing},
                                  {"lineBps", snapshot.upload_line.value},
                                  {"upBps", snapshot.upload_pace.value}}},
          {"deltaStore", DeltaStoreValues(snapshot)},
          {"cacheBytes", snapshot.content_bytes},
          {"diskFreeBytes",
           snapshot.disk_free_bytes ? StatusValue(*snapshot.disk_free_bytes) : StatusValue()},
          {"usage", UsageValues(snapshot.terms.usage)},
          {"contribution", StatusObject{{"microBatches", snapshot.totals.micro_batches}}},
          {"health", HealthValues(snapshot)}};
}

}  // namespace

std::string QuarantineNotice::Text() const {
  const std::string what = kind == "weights"    ? "its weights differ from those of its group"
                           : kind == "values"   ? "losses or gradients that cannot be right"
                           : kind == "outputs"  ? "others compute other outputs from its inputs"
                           : kind == "failures" ? "it could not do its part, which others could"
                                                : "its results failed checks";
  return "in quarantine until " + until + ", without a stage: " + what + " (" +
         std::to_string(faults) + (faults == 1 ? " time)" : " times)");
}

void AddRunner(const pipeline::RunnerStats& stats, const std::vector<net::LinkStats>& links,
               TrafficTotals* totals) {
  Add(stats.forward, &totals->forward);
  Add(stats.backward, &totals->backward);
  Add(stats.replica, &totals->replica);
  totals->micro_batches += stats.micro_batches_done;
  totals->delta_hits += stats.delta_hits;
  totals->first_visits += stats.first_visits;
  totals->resends += stats.resends;
  for (const net::LinkStats& link : links) {
    totals->link_sent_wire_bytes += link.sent_wire_bytes;
    totals->link_received_wire_bytes += link.received_wire_bytes;
  }
}

StatusSnapshot ForOthers(StatusSnapshot snapshot) {
  snapshot.losses.clear();
  snapshot.held_out.clear();
  if (snapshot.terms.reason == "program" || snapshot.terms.reason == "gpu") {
    snapshot.state_reasons = {"paused by its owner's terms"};
  }
  snapshot.gpu.reset();
  TermsReport known;
  known.reason = snapshot.terms.reason;
  known.until_ms = snapshot.terms.until_ms;
  snapshot.terms = std::move(known);
  return snapshot;
}

std::string StatusJson(const StatusSnapshot& snapshot) {
  return net::StatusText(net::PeerStatusTree(), StatusValues(snapshot));
}

std::string MetricsText(const StatusSnapshot& snapshot) {
  net::MetricFamilies metrics;
  net::AddMetrics(net::PeerStatusTree(), StatusValues(snapshot), &metrics);
  return metrics.Text();
}

}  // namespace shoal::daemon
