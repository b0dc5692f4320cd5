#include "pipeline/core/boundary_stats.h"

namespace shoal::pipeline {
namespace {

constexpr double kWeight = 1.0 / 16;  // of the newest message

}  // namespace

void RecentRatio::Add(double ratio) {
  last = ratio;
  average = messages == 0 ? ratio : average + kWeight * (ratio - average);
  ++messages;
}

double LowRankStats::Form::bits_per_value() const {
  return values == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
}

double LowRankStats::share() const {
  const std::uint64_t all = low_rank.messages + others.messages;
  return all == 0 ? 0 : static_cast<double>(low_rank.messages) / static_cast<double>(all);
}

void LowRankStats::AddMemory(const compression::LazySwitch& memory,
                             const compression::StatefulCodec& codec) {
  if (memory.seen > 0) correlation = memory.correlation;
  lazy = codec.PassesOn(memory);
}

void BoundaryStats::AddGradients(const net::Frame& frame, std::size_t sample_values,
                                 const compression::StatefulCodec& codec) {
  LowRankStats::Form& form =
      codec.SaysLowRank(frame.payload.bytes()) ? low_rank->low_rank : low_rank->others;
  ++form.messages;
  form.bytes += frame.payload.size();
  form.values += frame.samples.size() * sample_values;
}

void VisitStats::AddVisits(std::uint64_t samples, std::uint64_t deltas,
                           compression::DeltaMode how) {
  delta_hits += deltas;
  first_visits += samples - deltas;
  mode = how;
  if (samples == 0) return;
  without_m.Add(static_cast<double>(samples - deltas) / static_cast<double>(samples));
}

}  // namespace shoal::pipeline
