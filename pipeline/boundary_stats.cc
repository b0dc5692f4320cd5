#include "pipeline/boundary_stats.h"

namespace shoal::pipeline {
namespace {

constexpr double kWeight = 1.0 / 16;  // of the newest message

}  // namespace

void RecentRatio::Add(double ratio) {
  last = ratio;
  average = messages == 0 ? ratio : average + kWeight * (ratio - average);
  ++messages;
}

void BoundaryStats::AddVisits(std::uint64_t samples, std::uint64_t deltas,
                              compression::DeltaMode how) {
  delta_hits += deltas;
  first_visits += samples - deltas;
  mode = how;
  if (samples == 0) return;
  without_m.Add(static_cast<double>(samples - deltas) / static_cast<double>(samples));
}

}  // namespace shoal::pipeline
