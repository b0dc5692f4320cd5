// The peer's metrics in Prometheus text format, from a snapshot.

#include "daemon/status_snapshot.h"
#include "net/http/metric_families.h"

namespace shoal::daemon {
namespace {

using net::MetricFamilies;

// One counter family over the three compressed kinds of traffic.
void PerKind(const char* name, const char* help, const TrafficTotals& totals,
             std::uint64_t pipeline::KindBytes::*field, MetricFamilies* out) {
  const std::pair<const char*, const pipeline::KindBytes*> kinds[] = {
      {"activation", &totals.forward},
      {"gradient", &totals.backward},
      {"replica", &totals.replica}};
  for (const auto& [kind, bytes] : kinds) {
    out->Counter(name, help, bytes->*field, {{"kind", kind}});
  }
}

void LinkMetrics(const StatusSnapshot& snapshot, MetricFamilies* out) {
  const auto labels = [](const net::LinkStats& link) {
    return MetricFamilies::Labels{{"peer", link.peer.ToShort()}, {"channel", link.channel}};
  };
  for (const net::LinkStats& link : snapshot.links) {
    out->Counter("shoal_link_sent_bytes_total", "Wire bytes sent on a bulk link.",
                 link.sent_wire_bytes, labels(link));
  }
  for (const net::LinkStats& link : snapshot.links) {
    out->Counter("shoal_link_received_bytes_total", "Wire bytes received on a bulk link.",
                 link.received_wire_bytes, labels(link));
  }
  for (const net::LinkStats& link : snapshot.links) {
    out->Gauge("shoal_link_rtt_seconds", "Round trip of the last ping.", link.rtt_ms / 1e3,
               labels(link));
  }
  for (const net::LinkStats& link : snapshot.links) {
    out->Gauge("shoal_link_send_queue_bytes", "Bytes accepted and not yet written.",
               link.queued_bytes, labels(link));
  }
  for (const net::LinkStats& link : snapshot.links) {
    for (const auto& [reason, ms] : {std::pair{"rate_limit", link.stall_rate_limit_ms},
                                     std::pair{"network", link.stall_network_ms}}) {
      MetricFamilies::Labels with_reason = labels(link);
      with_reason.push_back({"reason", reason});
      out->Counter("shoal_link_stall_seconds_total", "Time that frames waited, by reason.",
                   ms / 1e3, with_reason);
    }
  }
}

void WorkMetrics(const StatusSnapshot& snapshot, MetricFamilies* out) {
  const pipeline::RunnerStats& runner = snapshot.runner;
  for (std::size_t i = 0; i < pipeline::kActivities; ++i) {
    const auto activity = static_cast<pipeline::Activity>(i);
    out->Counter("shoal_stage_seconds_total",
                 "What the stage's compute did or waited for in this generation, without gaps.",
                 runner.time[activity] / 1e3,
                 {{"activity", std::string(pipeline::ActivityName(activity))}});
  }
  const std::pair<const char*, double> phases[] = {
      {"encode", runner.encode_ms}, {"decode", runner.decode_ms}, {"store", runner.store_ms}};
  for (const auto& [phase, ms] : phases) {
    out->Counter("shoal_phase_seconds_total",
                 "Time of what runs beside compute in this generation.", ms / 1e3,
                 {{"phase", phase}});
  }
  out->Counter("shoal_microbatches_total", "Micro-batches done.", snapshot.totals.micro_batches);
  out->Gauge("shoal_global_step", "Optimizer steps applied by the run.", snapshot.step);
  out->Gauge("shoal_training_loss", "Token-mean loss of the last step.", snapshot.loss);
  out->Gauge("shoal_in_flight_limit", "Bound on micro-batches in flight.", runner.bounds.in_flight);
  out->Gauge("shoal_pending_weights_limit", "Bound on micro-batches with pending weight gradients.",
             runner.bounds.pending_weights_max);
}

MetricFamilies::Labels EndLabels(const pipeline::BoundaryStats& end) {
  return {{"boundary", std::to_string(end.boundary)},
          {"side", std::string(storage::BoundarySideName(end.side))}};
}

// One gauge family over the boundary ends that measure this ratio.
void PerEnd(const char* name, const char* help, const StatusSnapshot& snapshot,
            pipeline::RecentRatio pipeline::BoundaryStats::*ratio, MetricFamilies* out) {
  for (const pipeline::BoundaryStats& end : snapshot.runner.boundaries) {
    if ((end.*ratio).messages > 0) out->Gauge(name, help, (end.*ratio).average, EndLabels(end));
  }
}

void PerEnd(const char* name, const char* help, const StatusSnapshot& snapshot,
            std::uint64_t pipeline::BoundaryStats::*count, MetricFamilies* out) {
  for (const pipeline::BoundaryStats& end : snapshot.runner.boundaries) {
    out->Counter(name, help, static_cast<double>(end.*count), EndLabels(end));
  }
}

void BoundaryMetrics(const StatusSnapshot& snapshot, MetricFamilies* out) {
  using End = pipeline::BoundaryStats;
  PerEnd("shoal_boundary_relative_delta",
         "Size of a sample's change since its last visit against the sample, recent average.",
         snapshot, &End::relative_delta, out);
  PerEnd("shoal_boundary_forward_error",
         "Relative coding error of sent activations, recent average.", snapshot,
         &End::forward_error, out);
  PerEnd("shoal_boundary_backward_error",
         "Relative coding error of sent gradients, recent average.", snapshot, &End::backward_error,
         out);
  PerEnd("shoal_boundary_first_visit_ratio",
         "Part of the samples that travelled without m, recent average.", snapshot, &End::without_m,
         out);
  for (const End& end : snapshot.runner.boundaries) {
    if (!end.mode) continue;
    for (const auto mode : {compression::DeltaMode::kDelta, compression::DeltaMode::kWideDelta,
                            compression::DeltaMode::kFull}) {
      MetricFamilies::Labels labels = EndLabels(end);
      labels.push_back({"mode", std::string(compression::DeltaModeName(mode))});
      out->Gauge("shoal_boundary_mode", "1 for the way that samples with m are sent.",
                 mode == *end.mode ? 1 : 0, labels);
    }
  }
  PerEnd("shoal_boundary_delta_hits_total", "Samples coded as changes, in this generation.",
         snapshot, &End::delta_hits, out);
  PerEnd("shoal_boundary_first_visits_total", "Samples coded without m, in this generation.",
         snapshot, &End::first_visits, out);
  PerEnd("shoal_boundary_resends_total", "Samples sent again in full, in this generation.",
         snapshot, &End::resends, out);
}

void LowRankMetrics(const StatusSnapshot& snapshot, MetricFamilies* out) {
  for (const pipeline::BoundaryStats& end : snapshot.runner.boundaries) {
    if (!end.low_rank) continue;
    out->Gauge("shoal_boundary_low_rank_ratio", "Part of the gradients sent as low rank.",
               end.low_rank->share(), EndLabels(end));
  }
  for (const pipeline::BoundaryStats& end : snapshot.runner.boundaries) {
    if (!end.low_rank || !end.low_rank->correlation) continue;
    out->Gauge("shoal_boundary_activation_correlation",
               "Correlation of consecutive micro-batches' activations, recent average.",
               *end.low_rank->correlation, EndLabels(end));
  }
}

void StoreMetrics(const StatusSnapshot& snapshot, MetricFamilies* out) {
  const storage::DeltaStoreStats& store = snapshot.delta_store;
  out->Gauge("shoal_delta_store_bytes", "Bytes of m held.", store.bytes);
  out->Gauge("shoal_delta_store_limit_bytes", "Quota of the delta store.", store.bytes_limit);
  const std::pair<const char*, std::uint64_t> results[] = {
      {"hit", store.hits}, {"miss", store.misses}, {"corrupt", store.corrupt}};
  for (const auto& [result, count] : results) {
    out->Counter("shoal_delta_store_lookups_total", "Lookups by result.", count,
                 {{"result", result}});
  }
  out->Gauge("shoal_delta_store_disk_bytes", "Size of the delta store's files.", store.disk_bytes);
  out->Gauge("shoal_delta_store_memory_bytes", "Memory of the delta store and of m read ahead.",
             store.memory_bytes + snapshot.runner.prefetch_bytes);
  out->Counter("shoal_delta_store_committed_bytes_total", "Bytes of m committed.",
               store.committed_bytes);
  out->Counter("shoal_delta_store_disk_written_bytes_total",
               "Bytes written to disk to hold what was committed.", store.disk_written_bytes);
  const std::pair<const char*, std::uint64_t> gone[] = {
      {"quota", store.evicted}, {"disk", store.lost}, {"damage", store.corrupt}};
  for (const auto& [reason, count] : gone) {
    out->Counter("shoal_delta_store_dropped_total", "Records dropped, by reason.", count,
                 {{"reason", reason}});
  }
  out->Gauge("shoal_delta_store_trouble", "1 while the disk refuses what the store writes.",
             store.trouble.empty() ? 0 : 1);
  out->Counter("shoal_first_visits_total", "Samples sent or received without m.",
               snapshot.totals.first_visits);
  out->Counter("shoal_resends_total", "Samples sent again in full after a mismatch.",
               snapshot.totals.resends);
}

}  // namespace

std::string MetricsText(const StatusSnapshot& snapshot) {
  MetricFamilies out;
  out.Gauge("shoal_build_info", "Version of the program.", 1, {{"version", snapshot.version}});
  for (int i = 0; i <= static_cast<int>(PeerState::kStopped); ++i) {
    const auto state = static_cast<PeerState>(i);
    out.Gauge("shoal_peer_state", "1 for the state the peer is in.",
              state == snapshot.state ? 1 : 0, {{"state", std::string(PeerStateName(state))}});
  }
  WorkMetrics(snapshot, &out);
  using Kind = pipeline::KindBytes;
  PerKind("shoal_sent_payload_bytes_total", "Payload bytes sent, after the codec.", snapshot.totals,
          &Kind::wire_sent, &out);
  PerKind("shoal_sent_uncompressed_bytes_total", "The same payloads as fp32.", snapshot.totals,
          &Kind::raw_sent, &out);
  PerKind("shoal_received_payload_bytes_total", "Payload bytes received.", snapshot.totals,
          &Kind::wire_received, &out);
  PerKind("shoal_received_uncompressed_bytes_total", "The same payloads as fp32.", snapshot.totals,
          &Kind::raw_received, &out);
  out.Counter("shoal_control_sent_bytes_total", "Wire bytes to the scheduler.",
              snapshot.control.sent_wire_bytes);
  out.Counter("shoal_control_received_bytes_total", "Wire bytes from the scheduler.",
              snapshot.control.received_wire_bytes);
  LinkMetrics(snapshot, &out);
  BoundaryMetrics(snapshot, &out);
  LowRankMetrics(snapshot, &out);
  StoreMetrics(snapshot, &out);
  return out.Text();
}

}  // namespace shoal::daemon
