// ChurnSimulation: replays a trace of machines that come and go against the scheduler's own state
// machine, with simulated peers, lines and a fake clock, and keeps account of their time.
// The same trace, settings and seed give the same result. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_SIMULATION_H_
#define SHOAL_DAEMON_CHURN_SIMULATION_H_

#include <cstdint>

#include "common/status.h"
#include "daemon/churn/account.h"
#include "daemon/churn/trace.h"
#include "daemon/churn/trained_model.h"

namespace shoal::daemon {

struct ChurnResult {
  Balance balance;
  double presence = 0;  // machine-seconds, by another sum; with the step in progress
  // Useful micro-batches per second of the machines that were there, over those of the same steps
  // without churn, with their first visits and checkpoints.
  double goodput = 0;
  double measured_seconds = 0;            // from the first step on
  std::uint64_t deaths = 0, comings = 0;  // while measured
  std::uint64_t plans = 0, plans_in_place = 0, checkpoints = 0;
  std::uint64_t resumed = 0;  // held until the organiser resumed it
  double step_seconds = 0;    // of all places, without churn
  // Of samples that crossed a boundary of a step that was applied and had done so before: all, and
  // those that both ends had m of.
  std::uint64_t visits = 0, deltas = 0;
};

enum class BalanceCheck : std::uint8_t { kAfterEachStep, kAfterEachEvent };

// An error is a fault of the scheduler or of the simulation: a step that is counted twice, say.
Result<ChurnResult> SimulateChurn(const ChurnTrace& trace, const ChurnSettings& settings,
                                  BalanceCheck check = BalanceCheck::kAfterEachStep);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_SIMULATION_H_
