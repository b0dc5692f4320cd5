// The run's metrics in Prometheus text format.

#include "common/version.h"
#include "net/http/metric_families.h"
#include "scheduler/server/run_status.h"

namespace shoal::scheduler {
namespace {

using net::MetricFamilies;

void RunMetrics(const RunView& view, MetricFamilies* out) {
  for (const RunState state : {RunState::kWaiting, RunState::kPreparing, RunState::kTraining,
                               RunState::kPaused, RunState::kFinished, RunState::kFailed}) {
    out->Gauge("shoal_run_state", "1 for the state the run is in.", view.state == state ? 1 : 0,
               {{"state", std::string(RunStateName(state))}});
  }
  out->Gauge("shoal_global_step", "Optimizer steps applied.", view.step);
  out->Gauge("shoal_target_step", "Optimizer steps of the whole run.", view.steps);
  out->Gauge("shoal_checkpoint_step", "Steps applied in the newest complete checkpoint.",
             view.checkpoint_step);
  out->Gauge("shoal_generation", "Number of the newest plan.", view.generation);
  out->Gauge("shoal_training_loss", "Token-mean loss of the last step.", view.loss);
  out->Gauge("shoal_samples_per_second", "Training samples per second, recent steps.",
             view.samples_per_second);
  out->Gauge("shoal_step_seconds", "Duration of a step, recent steps.", view.step_seconds);
  out->Gauge("shoal_step_control_seconds",
             "Of the last step: exchange of gradients and its control round trips.",
             view.seconds_in_control);
}

void PeerMetrics(const RunConfig& config, const RunView& view, MetricFamilies* out) {
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
    out->Gauge("shoal_peers", "Members by what they do.", count, {{"role", role}});
  }
  out->Gauge("shoal_peers_needed", "Peers that the run needs.",
             static_cast<double>(config.stages) * config.pipelines);
  for (std::uint32_t s = 0; s < config.stages; ++s) {
    std::size_t count = 0;
    for (const MemberView& member : view.members) {
      if (member.connected && member.stage == static_cast<std::int32_t>(s)) ++count;
    }
    out->Gauge("shoal_stage_peers", "Connected peers of a stage.", count,
               {{"stage", std::to_string(s)}});
  }
}

void CheckMetrics(const RunView& view, const ServerView& server, MetricFamilies* out) {
  out->Counter("shoal_delta_checks_total", "Comparisons of m on both ends of a boundary.",
               view.m_checks);
  out->Counter("shoal_delta_mismatches_total", "Comparisons of m that found a difference.",
               view.m_mismatches);
  out->Counter("shoal_weight_checks_total", "Comparisons of weights inside stage groups.",
               view.weight_checks);
  out->Counter("shoal_weight_mismatches_total", "Comparisons of weights that differed.",
               view.weight_mismatches);
  out->Counter("shoal_control_sent_bytes_total", "Wire bytes sent to peers.",
               server.control.sent_wire_bytes);
  out->Counter("shoal_control_received_bytes_total", "Wire bytes received from peers.",
               server.control.received_wire_bytes);
  out->Counter("shoal_artefact_sent_bytes_total", "Of these: weights and data sent.",
               server.control.artefact_sent_bytes);
  out->Counter("shoal_artefact_received_bytes_total", "Of these: checkpoints received.",
               server.control.artefact_received_bytes);
  out->Gauge("shoal_content_store_bytes", "Bytes of weights, data and checkpoints held.",
             server.content_bytes);
  out->Gauge("shoal_uptime_seconds", "Since the scheduler was started.", server.uptime_s);
}

}  // namespace

std::string MetricsText(const RunConfig& config, const RunView& view, const ServerView& server) {
  MetricFamilies families;
  families.Gauge("shoal_build_info", "The program's version.", 1, {{"version", kVersion}});
  RunMetrics(view, &families);
  PeerMetrics(config, view, &families);
  CheckMetrics(view, server, &families);
  return families.Text();
}

}  // namespace shoal::scheduler
