#include "pipeline/boundary/sent_stats.h"

#include "common/log.h"

namespace shoal::pipeline {
namespace {

compression::CodingStats Sum(const std::vector<compression::CodingStats>& segments) {
  compression::CodingStats sum;
  for (const compression::CodingStats& stats : segments) sum.Add(stats);
  return sum;
}

}  // namespace

SentStats::SentStats(const DirectionConfig& direction, TransferStats* totals, BoundaryStats* seen)
    : boundary_(direction.boundary),
      forward_(direction.forward()),
      keeps_m_(direction.codec->keeps_m()),
      guarded_(direction.codec->guarded()),
      segments_(direction.segments.count),
      totals_(totals),
      seen_(seen) {}

// For a whole step, in the order of its micro-batches: so a run does not depend on which encodings
// happened to be done when.
void SentStats::StartStep(std::size_t micro_batches) {
  const compression::DeltaMode before = mode();
  guard_ = Observed();
  micro_batches_.assign(micro_batches, {});
  if (mode() == before) return;
  SHOAL_LOG(kInfo, "pipeline", "delta.mode", {"boundary", boundary_},
            {"mode", compression::DeltaModeName(mode())},
            {"relative_delta", guard_.relative_delta()});
}

compression::DeltaGuard SentStats::Observed() const {
  compression::DeltaGuard guard = guard_;
  for (const MicroBatchStats& micro_batch : micro_batches_) {
    if (guarded_) guard.Observe(Sum(micro_batch.segments));
  }
  return guard;
}

void SentStats::Begin(std::uint32_t micro_batch, std::size_t samples) {
  micro_batches_[micro_batch] = {SegmentedVisits(samples, segments_),
                                 std::vector<compression::CodingStats>(segments_)};
}

bool SentStats::Add(std::uint32_t micro_batch, std::uint32_t segment,
                    const compression::CodingStats& stats,
                    const std::vector<std::uint32_t>& without_m) {
  MicroBatchStats& whole = micro_batches_[micro_batch];
  whole.segments[segment] = stats;
  if (!whole.visits.Add(without_m)) return false;
  Count(Sum(whole.segments));
  AddVisits(whole.visits.samples(), whole.visits.deltas());
  return true;
}

void SentStats::AddAgain(std::uint64_t samples, const compression::CodingStats& stats) {
  Count(stats);
  if (samples > 0) AddVisits(samples, 0);
}

void SentStats::Count(const compression::CodingStats& stats) {
  (forward_ ? totals_->forward_coding : totals_->backward_coding).Add(stats);
  if (stats.values > 0) {
    (forward_ ? seen_->forward_error : seen_->backward_error).Add(stats.relative_error());
  }
  if (stats.changes.tokens() == 0) return;
  VisitStats* const visits = seen_->Visits(forward_);
  visits->relative_delta.Add(stats.changes.median());
  visits->relative_delta_p90.Add(stats.changes.p90());
}

void SentStats::AddVisits(std::uint64_t samples, std::uint64_t deltas) {
  if (!keeps_m_) return;
  totals_->delta_hits += deltas;
  totals_->first_visits += samples - deltas;
  seen_->Visits(forward_)->AddVisits(samples, deltas, mode());
}

}  // namespace shoal::pipeline
