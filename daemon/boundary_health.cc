#include "daemon/boundary_health.h"

#include <cstdio>

#include "compression/codecs/aqsgd/delta_guard.h"

namespace shoal::daemon {
namespace {

using compression::DeltaMode;
using pipeline::BoundaryStats;

// The second visits still see the steepest part of the training: judge from the third on.
constexpr double kJudgedFrom_epochs = 2;
// After the first epoch the average over messages still holds first visits for a while.
constexpr double kMissesFrom_epochs = 1.5;
constexpr double kMissesMany = 0.1;  // of the samples

std::string Percent(double part) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * part);
  return text;
}

std::string Epoch(const StatusSnapshot& snapshot) {
  return "epoch " + std::to_string(static_cast<std::uint64_t>(snapshot.epochs) + 1);
}

std::string Name(const BoundaryStats& end) { return "boundary " + std::to_string(end.boundary); }

// As DeltaGuard judges.
double Change(const BoundaryStats& end) {
  return compression::DeltaGuard::Change(end.relative_delta.average,
                                         end.relative_delta_p90.average);
}

std::string Changes(const BoundaryStats& end) {
  return "half of the tokens change by " + Percent(end.relative_delta.average) +
         " of their size or more between visits, a tenth by " +
         Percent(end.relative_delta_p90.average) + " or more";
}

bool Guarded(const BoundaryStats& end) { return end.mode && *end.mode != DeltaMode::kDelta; }

void CheckGuard(const BoundaryStats& end, std::vector<HealthEntry>* health) {
  // The receiver's peer does not know the figure behind it; one warning per boundary is enough.
  if (!Guarded(end) || end.side != storage::BoundarySide::kSender) return;
  std::string text = Name(end) + " sends " +
                     (*end.mode == DeltaMode::kFull ? "whole activations instead of changes"
                                                    : "changes with twice the bits");
  if (end.relative_delta.messages > 0) {
    text += ": " + Changes(end);
  }
  health->push_back({"delta_guard", text,
                     "lower optimizer.learning_rate in run.toml, unless the model learns from "
                     "fresh weights; it goes back by itself when changes shrink"});
}

void CheckDelta(const StatusSnapshot& snapshot, const BoundaryStats& end,
                std::vector<HealthEntry>* health) {
  if (Guarded(end) || snapshot.epochs < kJudgedFrom_epochs || end.relative_delta.messages == 0 ||
      !(Change(end) > compression::DeltaGuard::kWide)) {
    return;
  }
  health->push_back(
      {"delta_large",
       "in " + Epoch(snapshot) + " at " + Name(end) + " " + Changes(end) + ": aqsgd gains little",
       "lower optimizer.learning_rate in run.toml, or give codecs.forward more bits"});
}

void CheckMisses(const StatusSnapshot& snapshot, const BoundaryStats& end,
                 std::vector<HealthEntry>* health) {
  if (!end.mode || *end.mode == DeltaMode::kFull || snapshot.epochs < kMissesFrom_epochs ||
      !(end.without_m.average > kMissesMany)) {
    return;
  }
  const storage::DeltaStoreStats& store = snapshot.delta_store;
  const bool small = store.evicted > 0 || (store.bytes_limit > 0 &&
                                           snapshot.budget.delta_store_bytes > store.bytes_limit);
  health->push_back(
      {"delta_store_misses",
       "in " + Epoch(snapshot) + " " + Percent(end.without_m.average) + " of the samples at " +
           Name(end) + " still travel as first visits",
       small ? "raise limits.delta_store in shoald.toml, or take m=8 or m=4 in codecs.forward"
             : "nothing if peers changed lately: it passes within an epoch; else see at the other "
               "end of the boundary whether its store is full"});
}

}  // namespace

std::vector<HealthEntry> BoundaryHealth(const StatusSnapshot& snapshot) {
  std::vector<HealthEntry> health;
  bool keeps_m = false;
  for (const BoundaryStats& end : snapshot.runner.boundaries) {
    keeps_m = keeps_m || end.mode;
    CheckGuard(end, &health);
    CheckDelta(snapshot, end, &health);
    CheckMisses(snapshot, end, &health);
  }
  for (const std::string& text : snapshot.runner.on_host) {
    health.push_back({"on_host", text,
                      "nothing where the line is slower; else take a codec or replica method that "
                      "has a GPU form (docs/algorithms/gpu.md)"});
  }
  if (keeps_m && snapshot.target_epochs > 0 && snapshot.target_epochs <= 1) {
    health.push_back({"aqsgd_single_epoch",
                      "this run visits no sample twice, so aqsgd never sends a change",
                      "take `direct` or `tiles` as codecs.forward: they need no store"});
  }
  if (snapshot.totals.resends > 0) {
    health.push_back({"delta_mismatch",
                      std::to_string(snapshot.totals.resends) +
                          " samples were sent again in full, because the two ends of a boundary "
                          "remembered different activations",
                      "nothing if it stays so (a crash loses what was not flushed); if it grows, "
                      "check the disks of both peers"});
  }
  return health;
}

}  // namespace shoal::daemon
