// Segments: how a micro-batch is divided for a boundary. One segment is on the wire while the next
// one is encoded and the one before is decoded.
//
// Segment k of P has tokens [k T / P, (k + 1) T / P) of each row. It is a message of its own, with
// its own codec call, frame, m and requests to send again. A segment of one micro-batch is called a
// transfer. Both ends compute the same division from the run's settings. Pure. Thread: any.

#ifndef SHOAL_PIPELINE_CORE_SEGMENTS_H_
#define SHOAL_PIPELINE_CORE_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "compression/api/codec.h"

namespace shoal::pipeline {

struct Segments {
  std::uint32_t count = 1;         // 1, 2 or 4
  compression::SampleShape shape;  // of a sample's segment

  // Transfers of a step in order, and back.
  std::uint32_t Transfer(std::uint32_t micro_batch, std::uint32_t segment) const {
    return micro_batch * count + segment;
  }
  std::uint32_t MicroBatch(std::uint32_t transfer) const { return transfer / count; }
  std::uint32_t Segment(std::uint32_t transfer) const { return transfer % count; }

  // The id of a sample's segment in the delta store, inventories and losses. Each segment is a
  // record of its own, so versions, checksums and losses mean segments and need no second key. With
  // one segment it is the sample's number. Records of another division have other tokens and are
  // not used. Nothing else makes the id of a segment of that of a sample.
  SegmentId IdOf(SampleId sample, std::uint32_t segment) const {
    return {sample.value * count + segment};
  }
  std::vector<SegmentId> IdsOf(const std::vector<SampleId>& samples, std::uint32_t segment) const;
};

// As compression::SegmentCount says. A micro-batch of fewer rows is divided as one of `rows`.
Segments Divide(const compression::MessageCodec& codec, compression::SampleShape whole,
                std::uint32_t rows, std::uint64_t bytes_min);

// Counts samples whose segments are coded one after the other: a sample travelled as a change if
// all of its segments did.
class SegmentedVisits {
 public:
  SegmentedVisits() = default;
  SegmentedVisits(std::size_t samples, std::uint32_t segments)
      : without_m_(samples), left_(segments) {}

  // Another segment is coded, those samples at `without_m` as first visits. True if all are.
  bool Add(const std::vector<std::uint32_t>& without_m);
  bool complete() const { return left_ == 0; }
  std::uint64_t samples() const { return without_m_.size(); }
  std::uint64_t deltas() const;

 private:
  std::vector<bool> without_m_;  // by position
  std::uint32_t left_ = 0;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_SEGMENTS_H_
