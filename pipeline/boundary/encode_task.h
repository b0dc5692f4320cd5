// EncodeTask: a message of a boundary being encoded: what the task owns, and what it makes. It
// knows nothing of the direction's state, and so runs on any thread.

#ifndef SHOAL_PIPELINE_BOUNDARY_ENCODE_TASK_H_
#define SHOAL_PIPELINE_BOUNDARY_ENCODE_TASK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary_cache.h"
#include "pipeline/boundary/evidence.h"
#include "pipeline/boundary/link_memory.h"

namespace shoal::pipeline {

// What an encoding made: the frame is complete, `images` are the samples' next m or residuals.
struct Encoding {
  Status status;
  net::Frame frame;
  std::vector<MImage> images;
  compression::CodingStats stats;
  std::vector<std::uint32_t> without_m;  // positions
  LinkMemory::State next;                // of a stateful codec
  bool lost = false;                     // a gradient that is not finite: zeros went in its place
  double ms = 0;
  std::uint64_t digest = 0;  // of the frame, if the direction is logged
  SegmentEvidence kept;      // if the task says so
};

// What an encoding task owns.
struct EncodeTask {
  DirectionConfig direction;
  std::uint32_t segment;
  compression::RandomKey key;
  std::shared_ptr<const Buffer> values;  // where direction.home says
  std::vector<std::uint32_t> positions;
  std::vector<SampleId> samples;   // of the whole micro-batch, as `records`
  BoundaryCache::Records records;  // empty: all are first visits
  compression::DeltaMode mode;
  bool counted;
  net::Frame frame;
  const Clock* clock;
  LinkMemory::State before{};  // of a stateful codec; else null
  std::vector<float> activations{};
  compression::LinkPosition position{};
  bool keep = false;  // the frame and the m that it builds on
};

// Encodes, and empties the task. An error is one of the codec.
Encoding EncodeNow(EncodeTask* task);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_ENCODE_TASK_H_
