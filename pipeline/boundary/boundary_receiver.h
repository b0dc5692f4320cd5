// BoundaryReceiver: the receiving half of activation_link.h, one direction of one boundary. Thread:
// control; decoding runs on `codec`.

#ifndef SHOAL_PIPELINE_BOUNDARY_BOUNDARY_RECEIVER_H_
#define SHOAL_PIPELINE_BOUNDARY_BOUNDARY_RECEIVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary_cache.h"
#include "pipeline/boundary/decode_task.h"
#include "pipeline/boundary/evidence.h"

namespace shoal::pipeline {

// One transfer.
struct ActivationReceive {
  ReceiveState state = ReceiveState::kIdle;
  BoundaryCache::Records records;
  // Shared with the decoding task. The second one holds what was sent again.
  std::vector<std::shared_ptr<const net::Frame>> frames;
  std::vector<std::uint32_t> missing;  // positions asked for again
};
// What the transfers of a micro-batch share.
struct ReceivedMicroBatch {
  // Shared with the decoding tasks, each of which fills its segment's part.
  std::shared_ptr<ReceivedValues> values;
  SegmentedVisits visits;
  std::vector<bool> asked_again;  // by position: any segment
  bool ready = false;             // all is decoded, and sampled where that is asked for
};

class BoundaryReceiver {
 public:
  struct Handlers {
    std::function<Status(net::Frame)> send;  // a request to send again
    std::function<void()> on_ready;          // Ready() or HeldUpBy() may have changed
    std::function<void(Status)> on_bad;      // the other end sent what cannot be decoded
    // A few values of a micro-batch, before it is ready (link_memory.h); null: not wanted.
    std::function<void(std::uint32_t, std::vector<float>)> on_sampled;
    // All of a micro-batch is decoded: nothing of it will be asked for again; null: not wanted.
    std::function<void(std::uint32_t)> on_decoded;
  };

  BoundaryReceiver(const TransferResources& resources, DirectionConfig direction,
                   BoundaryCache* delta, BoundaryStats* seen, Handlers handlers);

  // Failed precondition if something of the step before was not taken.
  Status StartStep(const StepPlan& plan);
  // The running step has these micro-batches, of which it had the first ones before.
  void ExtendStep(const StepPlan& plan);
  std::uint32_t planned() const {
    SHOAL_ASSERT_ON(generation_->control());
    return static_cast<std::uint32_t>(micro_batches_.size());
  }
  // Lets micro-batches below `window` be decoded, which bounds memory.
  void Advance(std::uint32_t window);
  // A frame of the running step from the other end; an error is its fault.
  Status OnFrame(net::Frame frame);
  // Micro-batches 0 .. Ready() - 1 are decoded (or taken).
  std::uint32_t Ready() const {
    SHOAL_ASSERT_ON(generation_->control());
    return ready_;
  }
  // What holds up a micro-batch that is not decoded: nothing if not all of it has arrived.
  std::optional<Activity> HeldUpBy(std::uint32_t micro_batch) const;
  // The values of a decoded micro-batch, rows x tokens x hidden, in the direction's home.
  Buffer Take(std::uint32_t micro_batch);
  TransferLog& log() {
    SHOAL_ASSERT_ON(generation_->control());
    return log_;
  }

 private:
  MicroBatchId Id(std::uint32_t micro_batch) const { return {plan_.step, micro_batch}; }
  ActivationReceive& At(std::uint32_t micro_batch, std::uint32_t segment) {
    return receives_[direction_.segments.Transfer(micro_batch, segment)];
  }
  void Fetch(std::uint32_t micro_batch, std::uint32_t segment);
  Status CheckForm(const net::Frame& frame) const;
  void Match(std::uint32_t micro_batch, std::uint32_t segment);
  void AskAgain(std::uint32_t micro_batch, std::uint32_t segment,
                std::vector<std::uint32_t> positions);
  void Decode(std::uint32_t micro_batch, std::uint32_t segment);
  void Decoded(std::uint32_t micro_batch, std::uint32_t segment, std::vector<MImage> images);
  void Sample(std::uint32_t micro_batch);
  void MarkReady(std::uint32_t micro_batch);
  void Go(ActivationReceive* receive, ReceiveEvent event);

  const TransferResources resources_;
  Generation* const generation_;
  const DirectionConfig direction_;
  BoundaryCache* const delta_;
  BoundaryStats* const seen_;
  const Handlers handlers_;
  StepPlan plan_;
  std::vector<ActivationReceive> receives_;  // by transfer
  std::vector<ReceivedMicroBatch> micro_batches_;
  std::uint32_t window_ = 0;
  std::uint32_t ready_ = 0;
  TransferLog log_;  // of a logged direction
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_BOUNDARY_RECEIVER_H_
