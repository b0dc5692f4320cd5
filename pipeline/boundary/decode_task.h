// DecodeTask: a transfer over a boundary being decoded: what the task owns, and what it makes. It
// knows nothing of the direction's state, and so runs on any thread.

#ifndef SHOAL_PIPELINE_BOUNDARY_DECODE_TASK_H_
#define SHOAL_PIPELINE_BOUNDARY_DECODE_TASK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary_cache.h"
#include "pipeline/boundary/evidence.h"

namespace shoal::pipeline {

// The values of a micro-batch, of which each of its segments' decodings fills a part. Thread: any.
class ReceivedValues {
 public:
  ReceivedValues(std::shared_ptr<const compression::ValueHome> home, std::size_t count)
      : home_(std::move(home)), count_(count) {}

  // All of them; the first call allocates them, which takes its time on a device.
  Result<std::span<float>> Get();
  // Once all are filled.
  Buffer Take();

 private:
  const std::shared_ptr<const compression::ValueHome> home_;
  const std::size_t count_;
  Mutex mutex_;
  Buffer block_ SHOAL_GUARDED_BY(mutex_);
};

// What a decoding made, beside the values: `images` are the samples' next m.
struct Decoding {
  Status status;
  std::vector<MImage> images;
  std::vector<std::uint32_t> without_m;  // positions
  compression::DeltaMode mode = compression::DeltaMode::kDelta;
  double ms = 0;
  std::uint64_t digest = 0;  // of all frames, if the direction is logged
  SegmentEvidence kept;      // if the task says so
};

// What a decoding task owns.
struct DecodeTask {
  DirectionConfig direction;
  std::uint32_t segment;
  compression::RandomKey key;
  MicroBatchId id;
  std::shared_ptr<ReceivedValues> values;
  std::vector<std::shared_ptr<const net::Frame>> frames;
  std::size_t rows;                    // of the micro-batch
  std::vector<std::uint32_t> missing;  // positions that the second frame holds
  BoundaryCache::Records records;      // empty: the codec keeps no m
  const Clock* clock;
  bool keep = false;  // the frames and the m that they build on
};

// Fills the segment's part of `values`. An error is the sender's fault.
Decoding DecodeNow(DecodeTask* task);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_DECODE_TASK_H_
