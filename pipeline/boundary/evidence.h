// Evidence of what crossed a boundary forward, for spot checks: digests of all micro-batches of a
// step at both ends, and the frames of those that a neighbour is to show to a checker. Both ends of
// a boundary have the same. Thread: control, unless noted.

#ifndef SHOAL_PIPELINE_BOUNDARY_EVIDENCE_H_
#define SHOAL_PIPELINE_BOUNDARY_EVIDENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/status.h"
#include "net/links/frame.h"
#include "net/links/generation_links.h"
#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary_cache.h"

namespace shoal::pipeline {

// A segment of a micro-batch as it crossed a boundary.
struct SegmentEvidence {
  std::vector<std::shared_ptr<const net::Frame>> frames;  // the second: what was sent again
  BoundaryCache::Records records;  // by position, what the first builds on; empty: nothing
};
using TransferEvidence = std::vector<SegmentEvidence>;  // by segment

// XXH3-64 of u64 words: tag, XXH3-64 of the payload, then per sample its id, and version and
// checksum of what it builds on. A transfer's is the sum over its frames, modulo 2^64. Thread: any.
std::uint64_t DigestOf(const net::Frame& frame);
std::uint64_t DigestOf(const TransferEvidence& evidence);
// Positions of the samples that `segment` carries a second time. Thread: any.
std::vector<std::uint32_t> SentAgain(const SegmentEvidence& segment, const MicroBatchPlan& plan);

// What one end of a direction remembers of a step.
class TransferLog {
 public:
  // Of the step that starts next.
  void KeepNext(std::uint32_t micro_batch) { keep_next_ = micro_batch; }
  void StartStep(std::uint64_t step, std::size_t micro_batches, std::uint32_t segments);
  void ExtendStep(std::size_t micro_batches) { digests_.resize(micro_batches); }

  // That began last.
  std::uint64_t step() const { return step_; }
  bool keeps(std::uint32_t micro_batch) const { return keep_ == micro_batch; }
  void Add(std::uint32_t micro_batch, std::uint32_t segment, std::uint64_t digest,
           SegmentEvidence kept);
  // By micro-batch; of what was not coded yet 0.
  const std::vector<std::uint64_t>& digests() const { return digests_; }
  // Of the micro-batch that it keeps.
  const TransferEvidence& kept() const { return kept_; }
  bool complete() const;

 private:
  std::uint64_t step_ = 0;
  std::optional<std::uint32_t> keep_next_, keep_;
  std::vector<std::uint64_t> digests_;
  TransferEvidence kept_;
};

// The frames that show evidence to a checker (docs/WIRE.md, kSpotCheck).
std::vector<net::Frame> FramesOf(const TransferEvidence& evidence,
                                 const net::GenerationLinks& links, MicroBatchId id,
                                 const MicroBatchPlan& plan);

// Takes them at the other end: nothing is believed that does not fit the plan.
class EvidenceReceiver {
 public:
  // `id`: of the micro-batch in the pipeline that is checked.
  EvidenceReceiver(DirectionConfig direction, MicroBatchId id, MicroBatchPlan plan);

  // An error is the sender's fault.
  Status OnFrame(net::Frame frame);
  bool complete() const { return whole_ == segments_.size(); }
  // Once it is complete.
  TransferEvidence Take();

 private:
  struct Segment {
    SegmentEvidence evidence;
    std::optional<net::Frame> images;
  };
  Status OnActivation(net::Frame frame, Segment* segment) const;
  Status OnImages(net::Frame frame, Segment* segment) const;
  Status TakeImages(Segment* segment) const;

  const DirectionConfig direction_;
  const MicroBatchId id_;
  const MicroBatchPlan plan_;
  std::vector<Segment> segments_;
  std::size_t whole_ = 0;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_EVIDENCE_H_
