#include "daemon/boundary_health.h"

#include <cstdio>

#include "compression/codecs/aqsgd/delta_guard.h"

namespace shoal::daemon {
namespace {

using compression::DeltaMode;
using pipeline::BoundaryStats;
using pipeline::VisitStats;

// The second visits still see the steepest part of the training: judge from the third on.
constexpr double kJudgedFrom_epochs = 2;
// After the first epoch the average over messages still holds first visits for a while.
constexpr double kMissesFrom_epochs = 1.5;
constexpr double kMissesMany = 0.1;  // of the samples
// Changes of two gradients without anything in common are 1.4 times as large.
constexpr double kGradientsLarge = 0.9;

std::string Percent(double part) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * part);
  return text;
}

std::string Epoch(const StatusSnapshot& snapshot) {
  return "epoch " + std::to_string(static_cast<std::uint64_t>(snapshot.epochs) + 1);
}

// One direction of a boundary, at one end.
struct Direction {
  const VisitStats& seen;
  std::string boundary;
  const char* values;  // what travels
  const char* option;  // of run.toml, which codec
  bool sends = false;  // this end
};

// As DeltaGuard judges.
double Change(const VisitStats& seen) {
  return compression::DeltaGuard::Change(seen.relative_delta.average,
                                         seen.relative_delta_p90.average);
}

std::string Changes(const VisitStats& seen) {
  return "half of the tokens change by " + Percent(seen.relative_delta.average) +
         " of their size or more between visits, a tenth by " +
         Percent(seen.relative_delta_p90.average) + " or more";
}

bool Guarded(const VisitStats& seen) { return seen.mode && *seen.mode != DeltaMode::kDelta; }

void CheckGuard(const Direction& of, std::vector<HealthEntry>* health) {
  // The receiver's peer does not know the figure behind it; one warning per boundary is enough.
  if (!Guarded(of.seen) || !of.sends) return;
  std::string text =
      of.boundary + " sends " +
      (*of.seen.mode == DeltaMode::kFull ? "whole " + std::string(of.values) + " instead of changes"
                                         : "changes with twice the bits");
  if (of.seen.relative_delta.messages > 0) {
    text += ": " + Changes(of.seen);
  }
  health->push_back({"delta_guard", text,
                     "lower optimizer.learning_rate in run.toml, unless the model learns from "
                     "fresh weights; it goes back by itself when changes shrink"});
}

void CheckDelta(const StatusSnapshot& snapshot, const VisitStats& seen, const std::string& boundary,
                std::vector<HealthEntry>* health) {
  if (Guarded(seen) || snapshot.epochs < kJudgedFrom_epochs || seen.relative_delta.messages == 0 ||
      !(Change(seen) > compression::DeltaGuard::kWide)) {
    return;
  }
  health->push_back(
      {"delta_large",
       "in " + Epoch(snapshot) + " at " + boundary + " " + Changes(seen) + ": aqsgd gains little",
       "lower optimizer.learning_rate in run.toml, or give codecs.forward more bits"});
}

// The gradients of a message change by nearly as much as they are: their m costs disk for nothing.
void CheckGradientChanges(const StatusSnapshot& snapshot, const Direction& of,
                          std::vector<HealthEntry>* health) {
  if (snapshot.epochs < kJudgedFrom_epochs || of.seen.relative_delta.messages == 0 ||
      !(of.seen.relative_delta.average > kGradientsLarge)) {
    return;
  }
  health->push_back({"gradient_delta_large",
                     "in " + Epoch(snapshot) + " at " + of.boundary + " gradients change by " +
                         Percent(of.seen.relative_delta.average) +
                         " of their size between visits: their m saves little",
                     "take dithered:step=0.4,channels=on as codecs.backward, which keeps none"});
}

void CheckMisses(const StatusSnapshot& snapshot, const Direction& of,
                 std::vector<HealthEntry>* health) {
  if (!of.seen.mode || *of.seen.mode == DeltaMode::kFull || snapshot.epochs < kMissesFrom_epochs ||
      !(of.seen.without_m.average > kMissesMany)) {
    return;
  }
  const storage::DeltaStoreStats& store = snapshot.delta_store;
  const bool small = store.evicted > 0 || (store.bytes_limit > 0 &&
                                           snapshot.budget.delta_store_bytes > store.bytes_limit);
  health->push_back(
      {"delta_store_misses",
       "in " + Epoch(snapshot) + " " + Percent(of.seen.without_m.average) + " of the " + of.values +
           " at " + of.boundary + " still travel as first visits",
       small ? std::string("raise limits.delta_store in shoald.toml, or take ") + of.option
             : "nothing if peers changed lately: it passes within an epoch; else see at the other "
               "end of the boundary whether its store is full"});
}

}  // namespace

std::vector<HealthEntry> BoundaryHealth(const StatusSnapshot& snapshot) {
  std::vector<HealthEntry> health;
  bool keeps_m = false;
  for (const BoundaryStats& end : snapshot.runner.boundaries) {
    keeps_m = keeps_m || end.mode || end.gradients;
    const std::string boundary = "boundary " + std::to_string(end.boundary);
    const bool lower = end.side == storage::BoundarySide::kSender;
    const Direction forward{end, boundary, "activations", "m=8 or m=4 in codecs.forward", lower};
    CheckGuard(forward, &health);
    CheckDelta(snapshot, end, boundary, &health);
    CheckMisses(snapshot, forward, &health);
    if (!end.gradients) continue;
    const Direction backward{*end.gradients, boundary, "gradients", "a codecs.backward without m",
                             !lower};
    CheckGuard(backward, &health);
    CheckGradientChanges(snapshot, backward, &health);
    CheckMisses(snapshot, backward, &health);
  }
  for (const std::string& text : snapshot.runner.on_host) {
    health.push_back({"on_host", text,
                      "nothing where the line is slower; else take a codec or replica method that "
                      "has a GPU form (docs/algorithms/gpu.md)"});
  }
  if (keeps_m && snapshot.target_epochs > 0 && snapshot.target_epochs <= 1) {
    health.push_back({"aqsgd_single_epoch",
                      "this run visits no sample twice, so aqsgd never sends a change",
                      "take `direct` or `tiles` as codecs.forward, `dithered` as "
                      "codecs.backward: they need no store"});
  }
  if (snapshot.totals.resends > 0) {
    health.push_back({"delta_mismatch",
                      std::to_string(snapshot.totals.resends) +
                          " samples were sent again in full, because the two ends of a boundary "
                          "remembered different values",
                      "nothing if it stays so (a crash loses what was not flushed); if it grows, "
                      "check the disks of both peers"});
  }
  return health;
}

}  // namespace shoal::daemon
