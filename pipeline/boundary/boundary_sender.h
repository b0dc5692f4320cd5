// BoundarySender: the sending half of activation_link.h, one direction of one boundary. Thread:
// control; encoding runs on `codec`.

#ifndef SHOAL_PIPELINE_BOUNDARY_BOUNDARY_SENDER_H_
#define SHOAL_PIPELINE_BOUNDARY_BOUNDARY_SENDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary_cache.h"
#include "pipeline/boundary/encode_task.h"
#include "pipeline/boundary/evidence.h"
#include "pipeline/boundary/link_memory.h"
#include "pipeline/boundary/sent_stats.h"

namespace shoal::pipeline {

// One transfer.
struct ActivationSend {
  SendState state = SendState::kIdle;
  BoundaryCache::Records records;
  std::vector<bool> resent;  // by position: a sample is sent in full once at most
};
// What the transfers of a micro-batch share.
struct SentMicroBatch {
  // Shared with the encoding tasks, and kept for a resend.
  std::shared_ptr<const Buffer> values;
  std::vector<bool> resent;  // by position: any segment
};

class BoundarySender {
 public:
  using Send = std::function<Status(net::Frame)>;

  // `delta` is null if the codec keeps neither m nor a residual, `memory` if it is not stateful.
  BoundarySender(const TransferResources& resources, DirectionConfig direction,
                 BoundaryCache* delta, LinkMemory* memory, BoundaryStats* seen, Send send);

  std::uint32_t segments() const {
    SHOAL_ASSERT_ON(generation_->control());
    return direction_.segments.count;
  }

  SentStats& stats() {
    SHOAL_ASSERT_ON(generation_->control());
    return stats_;
  }

  // Failed precondition if something of the step before is not sent yet.
  Status StartStep(const StepPlan& plan);
  // The running step has these micro-batches, of which it had the first ones before.
  void ExtendStep(const StepPlan& plan);
  // Reads m of micro-batches below `window` ahead.
  void Advance(std::uint32_t window);
  // rows x tokens x hidden, in the direction's home: each segment is encoded as soon as its m is
  // there, in order, and sent while the next one is being encoded.
  void PutValues(std::uint32_t micro_batch, Buffer values);
  // The receiver lacks the m that these samples build on.
  Status OnResend(const net::Frame& frame);
  // The receiver has all of it: of an activation its gradient, or the first of it, came back; a
  // gradient was acknowledged. Does nothing a second time.
  Status Release(std::uint32_t micro_batch);
  // Micro-batches of the step that were released.
  std::uint32_t releases() const {
    SHOAL_ASSERT_ON(generation_->control());
    return releases_;
  }
  // Whether values are kept until they are released.
  bool keeps_values() const {
    SHOAL_ASSERT_ON(generation_->control());
    return direction_.codec->keeps_m();
  }
  // The receiver has all of it, and can ask for nothing again.
  bool released(std::uint32_t micro_batch) const;
  TransferLog& log() {
    SHOAL_ASSERT_ON(generation_->control());
    return log_;
  }

 private:
  MicroBatchId Id(std::uint32_t micro_batch) const { return {plan_.step, micro_batch}; }
  ActivationSend& At(std::uint32_t micro_batch, std::uint32_t segment) {
    return sends_[direction_.segments.Transfer(micro_batch, segment)];
  }
  void Fetch(std::uint32_t micro_batch, std::uint32_t segment);
  void Fetched(std::uint32_t micro_batch, std::uint32_t segment, BoundaryCache::Records records);
  void EncodeAll(std::uint32_t micro_batch, std::uint32_t segment);
  void EncodeNextOnLink();
  void EncodedOnLink(LinkMemory::State next, const net::Frame& frame);
  // `again`: for a resend, samples of the micro-batch of which nothing was sent again before.
  void Encode(std::uint32_t micro_batch, std::uint32_t segment,
              std::vector<std::uint32_t> positions, std::optional<std::uint64_t> again);
  void CountEncoded(std::uint32_t micro_batch, std::uint32_t segment, const Encoding& encoding,
                    std::optional<std::uint64_t> again);
  void Encoded(std::uint32_t micro_batch, net::Frame frame, std::vector<MImage> images);
  void Go(ActivationSend* send, SendEvent event);

  const TransferResources resources_;
  Generation* const generation_;
  const DirectionConfig direction_;
  BoundaryCache* const delta_;
  LinkMemory* const memory_;
  BoundaryStats* const seen_;  // also of stats_
  const Send send_;
  StepPlan plan_;
  std::vector<ActivationSend> sends_;  // by transfer
  std::vector<SentMicroBatch> micro_batches_;
  std::uint32_t window_ = 0, releases_ = 0;
  SentStats stats_;
  TransferLog log_;                    // of a logged direction
  std::deque<std::uint32_t> waiting_;  // with `memory_`: micro-batches to encode after the next
  bool encoding_on_link_ = false;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_BOUNDARY_SENDER_H_
