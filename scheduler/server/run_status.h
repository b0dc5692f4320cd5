// What the scheduler shows of a run: JSON of GET /api/v1/status, Prometheus metrics, model card.
// Pure; thread: any.

#ifndef SHOAL_SCHEDULER_SERVER_RUN_STATUS_H_
#define SHOAL_SCHEDULER_SERVER_RUN_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dataset/prepared_data.h"
#include "net/control/control.h"
#include "scheduler/config/run_config.h"
#include "scheduler/mirror/mirror_state.h"
#include "scheduler/swarm/swarm_state.h"
#include "scheduler/tracking/tracker_view.h"

namespace shoal::scheduler {

// Beside what the state machine knows.
struct ServerView {
  std::uint16_t peer_port = 0;  // that peers dial
  std::string status_address;   // host:port of the status page
  net::ControlStats control;
  std::uint64_t content_bytes = 0;
  std::optional<std::uint64_t> disk_free_bytes;  // beside the run's folder; none: not known
  MirrorView mirror;
  TrackerView logs;
  double uptime_s = 0;
};

// Of a scheduler that stands by.
struct StandbyView {
  std::string run, leader;              // name; machine and port, or why it is not known
  std::optional<double> leader_seen_s;  // ago
  std::uint64_t events = 0;             // of the history, known here
  std::uint64_t missing_files = 0;      // of the newest checkpoint
  double uptime_s = 0;                  // since it stands by
};

std::string StandbyJson(const StandbyView& view);
std::string StandbyMetrics(const StandbyView& view);
std::string StatusJson(const RunConfig& config, const RunView& view, const ServerView& server);
std::string MetricsText(const RunConfig& config, const RunView& view, const ServerView& server);
// MODEL_CARD.md of an export: where the weights come from.
std::string ModelCard(const RunConfig& config, const RunView& view, const dataset::DataInfo& data);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_RUN_STATUS_H_
