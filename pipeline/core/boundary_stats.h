// BoundaryStats: what one end of a boundary measured of the tensors that crossed it: does AQ-SGD's
// premise hold there, that samples change little between visits
// (compression/codecs/aqsgd/delta_guard.h)?
//
// The sender is the lower stage's end: it codes the activations. The receiver codes their
// gradients. Each measures what it codes, so a figure is known at one end only; the mode travels in
// the message and is known at both. Thread: control.

#ifndef SHOAL_PIPELINE_CORE_BOUNDARY_STATS_H_
#define SHOAL_PIPELINE_CORE_BOUNDARY_STATS_H_

#include <cstdint>
#include <optional>

#include "compression/api/codec.h"
#include "compression/api/stateful_codec.h"
#include "net/links/frame.h"
#include "storage/delta/delta_store.h"

namespace shoal::pipeline {

// A ratio per message: the newest, and an average in which it counts 1/16.
struct RecentRatio {
  double last = 0, average = 0;
  std::uint64_t messages = 0;  // 0: nothing measured

  void Add(double ratio);
};

// Gradients of a codec that sends some of them as low rank, as sent or received.
struct LowRankStats {
  struct Form {
    std::uint64_t messages = 0, bytes = 0, values = 0;
    double bits_per_value() const;  // of payloads; 0 where there are none
  };
  Form low_rank, others;
  // At the end that sends them: correlation of consecutive activations, if known, and whether what
  // the newest message left out goes on with the next one.
  std::optional<double> correlation;
  std::optional<bool> lazy;

  double share() const;  // of messages that are low rank, 0 to 1
  void AddMemory(const compression::LazySwitch& memory, const compression::StatefulCodec& codec);
};

// Of one direction, whose codec keeps m.
struct VisitStats {
  // How the newest message sent those samples that have an m. Nothing before it.
  std::optional<compression::DeltaMode> mode;
  // Who codes: ||x - m|| / ||x|| of a message's tokens with an m, their median and 90th percentile.
  RecentRatio relative_delta, relative_delta_p90;
  RecentRatio without_m;  // both: part of a message's samples that travelled without m
  std::uint64_t delta_hits = 0, first_visits = 0, resends = 0;  // samples

  // Of a message: `deltas` of its `samples` were coded as changes.
  void AddVisits(std::uint64_t samples, std::uint64_t deltas, compression::DeltaMode how);
};

// Of one generation. What it is itself is about activations.
struct BoundaryStats : VisitStats {
  std::uint32_t boundary = 0;
  storage::BoundarySide side = storage::BoundarySide::kSender;
  RecentRatio forward_error;  // sender: ||x - decoded|| / ||x||
  // Receiver: the same of gradients (and what is fed back to them), measured on some messages.
  RecentRatio backward_error;
  std::optional<VisitStats> gradients;   // nothing where they build on no m
  std::optional<LowRankStats> low_rank;  // both; nothing with another backward codec

  VisitStats* Visits(bool forward) { return forward || !gradients ? this : &*gradients; }
  // A message of gradients, samples of `sample_values` each; only with `low_rank`.
  void AddGradients(const net::Frame& frame, std::size_t sample_values,
                    const compression::StatefulCodec& codec);
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_BOUNDARY_STATS_H_
