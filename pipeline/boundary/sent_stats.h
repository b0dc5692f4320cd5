// SentStats: what a direction of a boundary measured of the messages that it sent. The mode follows
// from that: how samples of the next step that have an m are sent.
// Thread: control.

#ifndef SHOAL_PIPELINE_BOUNDARY_SENT_STATS_H_
#define SHOAL_PIPELINE_BOUNDARY_SENT_STATS_H_

#include <cstdint>
#include <vector>

#include "compression/codecs/aqsgd/delta_guard.h"
#include "pipeline/boundary/activation_link.h"
#include "pipeline/core/boundary_stats.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/core/segments.h"

namespace shoal::pipeline {

class SentStats {
 public:
  // Adds to `totals` of the peer and `seen` of the boundary, which outlive it.
  SentStats(const DirectionConfig& direction, TransferStats* totals, BoundaryStats* seen);

  // Chooses the mode for a step of so many micro-batches, from what the step before counted.
  void StartStep(std::size_t micro_batches);
  // The running step has so many.
  void ExtendStep(std::size_t micro_batches) { micro_batches_.resize(micro_batches); }
  compression::DeltaMode mode() const { return guard_.mode(); }
  // The guard behind the running step, which counts; and as of the last such step.
  void Commit() { committed_ = Observed(); }
  const compression::DeltaGuard& guard() const { return committed_; }
  // Before the first step: as another generation left it.
  void GoOnFrom(const compression::DeltaGuard& guard) { guard_ = committed_ = guard; }
  // The values of a micro-batch are there.
  void Begin(std::uint32_t micro_batch, std::size_t samples);
  // A segment was encoded, the samples at `without_m` as first visits. True once all segments of
  // the micro-batch are, whose figures count together.
  bool Add(std::uint32_t micro_batch, std::uint32_t segment, const compression::CodingStats& stats,
           const std::vector<std::uint32_t>& without_m);
  // Part of a segment was encoded again, for `samples` of the micro-batch the first time.
  void AddAgain(std::uint64_t samples, const compression::CodingStats& stats);

 private:
  struct MicroBatchStats {
    SegmentedVisits visits;
    std::vector<compression::CodingStats> segments;
  };

  compression::DeltaGuard Observed() const;
  void Count(const compression::CodingStats& stats);
  void AddVisits(std::uint64_t samples, std::uint64_t deltas);

  const std::uint32_t boundary_;
  const bool forward_, keeps_m_, guarded_;
  const std::uint32_t segments_;
  TransferStats* const totals_;
  BoundaryStats* const seen_;
  compression::DeltaGuard guard_, committed_;
  std::vector<MicroBatchStats> micro_batches_;  // of the running step
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_SENT_STATS_H_
