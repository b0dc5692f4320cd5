// StatusSnapshot: everything a peer shows, copied on the control thread, rendered anywhere.
//
// Values are measured, never intended ones.

#ifndef SHOAL_DAEMON_STATUS_SNAPSHOT_H_
#define SHOAL_DAEMON_STATUS_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/units.h"
#include "daemon/artefacts/artefact_fetcher.h"
#include "daemon/gpu/gpu_driver.h"
#include "daemon/peer_state.h"
#include "daemon/scheduler_connection.h"
#include "daemon/stage_host.h"
#include "daemon/terms/usage_ledger.h"
#include "net/control/control.h"
#include "net/links/link.h"
#include "pipeline/runner/stage_runner.h"
#include "storage/delta/delta_store.h"

namespace shoal::daemon {

// Totals over all generations, by kind of traffic.
struct TrafficTotals {
  replica::KindBytes forward, backward, replica;
  std::uint64_t link_sent_wire_bytes = 0, link_received_wire_bytes = 0;  // all bulk links
  std::uint64_t micro_batches = 0;
  std::uint64_t delta_hits = 0, first_visits = 0, resends = 0;
};

// Adds one generation's figures.
void AddRunner(const pipeline::RunnerStats& stats, const std::vector<net::LinkStats>& links,
               TrafficTotals* totals);

// What the owner's terms say at the moment, and what taking part cost.
struct TermsReport {
  std::string reason = "none";  // why it takes no stage: user, hang, or a PauseRuleName
  std::int64_t until_ms = 0;    // of the pause; 0: not known
  std::vector<std::string> rules;
  std::int64_t next_change_ms = 0;                        // 0: none by the clock
  std::uint64_t budget_used_bytes = 0, budget_bytes = 0;  // budget_bytes 0: there is none
  std::int64_t budget_resets_ms = 0;
  Usage usage;  // over all starts of shoald
};

// That the scheduler gives this peer no stage for a while, as its results failed checks.
inline constexpr std::string_view kQuarantineAdvice =
    "test this machine's memory and its GPU, undo overclocking, install the newest shoal, then "
    "start "
    "shoald again; once it computes right, the organiser can end it with `shoal swarm release`";
struct QuarantineNotice {
  std::int64_t until_ms = 0;  // since 1970; 0: it is not in quarantine
  std::string until;          // for people
  std::string kind;           // weights, values, other
  std::uint32_t faults = 0;

  // "in quarantine until 18:40: its weights differ (3 times)".
  std::string Text() const;
};

struct StatusSnapshot {
  std::string version;
  std::string peer_id;
  std::string name;
  PeerState state = PeerState::kStarting;
  std::vector<std::string> state_reasons;
  std::int64_t since_unix_ms = 0;  // of the state
  std::int64_t time_unix_ms = 0;

  SchedulerReport scheduler;
  std::string link_trouble;  // why the newest link to a neighbour failed; empty since it trains

  // The run as the scheduler last told; run_state empty: nothing known.
  std::string run_id, run_name, run_state, run_reason;
  std::uint64_t step = 0, target_step = 0;
  double loss = 0;
  std::uint32_t peers_up = 0, peers_total = 0;
  std::vector<std::pair<std::uint64_t, double>> losses;  // newest last, bounded
  // Steps applied and held-out loss, newest last, bounded.
  std::vector<std::pair<std::uint64_t, double>> held_out;

  bool has_stage = false;
  std::uint32_t stage = 0, stages = 0, pipeline = 0, pipelines = 0;
  std::uint32_t first_layer = 0, last_layer = 0;
  std::uint64_t generation = 0;
  std::string forward_codec, backward_codec, replica_method;
  std::vector<std::uint32_t> lan;  // pipelines whose peers share its LAN in the stage group
  std::string device;
  StageBudget budget;
  std::uint64_t resident_peak_bytes = 0;   // most memory that the process had
  std::optional<double> synthetic_cpu_ms;  // a bench: CPU time of making values
  FetchProgress fetch;
  double samples_per_second = 0;
  double epochs = 0, target_epochs = 0;  // of the run: visits of every sample; 0: not known

  pipeline::RunnerStats runner;       // this generation
  std::vector<net::LinkStats> links;  // this generation
  std::vector<net::RelayState> relays;
  net::PortMapping mapping;
  std::uint16_t listen_port = 0;
  std::map<PeerId, std::string> names;  // of peers in the plan
  std::vector<pipeline::BoundaryChecksum> boundaries;
  TrafficTotals totals;
  net::ControlStats control;
  TermsReport terms;
  std::optional<GpuReading> gpu;  // none: no driver tells
  std::string hang;               // what of this machine hangs; empty: nothing
  QuarantineNotice quarantine;
  Duration peer_timeout{};  // of the run; its default until the scheduler told it
  BitsPerSecond upload_cap, download_cap;
  std::string pacing;         // auto or off
  BitsPerSecond upload_line;  // what the line was measured to take; 0: not known
  BitsPerSecond upload_pace;  // what uploads keep to; 0: only the cap, if any
  storage::DeltaStoreStats delta_store;
  std::uint64_t store_memory_limit = 0;  // of the store and of m read ahead
  std::uint64_t content_bytes = 0;
  std::optional<std::uint64_t> disk_free_bytes;  // of the file system that holds the folder
};

// Without what the scheduler has, and what is its owner's own business: which rules and programs.
StatusSnapshot ForOthers(StatusSnapshot snapshot);
// GET /api/v1/status; schemaVersion first.
std::string StatusJson(const StatusSnapshot& snapshot);
// GET /metrics, Prometheus text format.
std::string MetricsText(const StatusSnapshot& snapshot);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_STATUS_SNAPSHOT_H_
