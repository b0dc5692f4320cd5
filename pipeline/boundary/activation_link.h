// The way of tensors over one boundary: activations forward, their gradients backward.
//
// A micro-batch travels in segments (segments.h). Per transfer, that is per segment of a
// micro-batch, and direction there is one ActivationSend at one end and one ActivationReceive at
// the other; each is an enum state and one transition function. A direction holds those of the
// running step; whoever uses it counts in micro-batches. Gradients go the same way as activations,
// with a codec that keeps no m; it may keep a residual, which the sender reads and stages as it
// does m, and of which the receiver knows nothing. A codec that remembers the link (link_memory.h)
// takes whole micro-batches, one after the other in the order in which they are put.
//
//   send     idle -> fetching -> fetched -> encoding -> sent -> released
//                        \-> fetching, values there -/     \-> encoding again (resend)
//   receive  idle -> fetching -> fetched -> matching -> decoding -> decoded -> taken
//              \-> frame held -> fetching, frame there -/  \-> resend asked -> matching
//
// AQ-SGD (paper section 3, algorithm 1) needs the same m on both ends: every sample of a frame
// names version and checksum of the m it builds on, and what does not match is sent in full.
// Thread: control; coding runs on `codec`, m comes from `store` through BoundaryCache.

#ifndef SHOAL_PIPELINE_BOUNDARY_ACTIVATION_LINK_H_
#define SHOAL_PIPELINE_BOUNDARY_ACTIVATION_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compression/codecs/aqsgd/delta_guard.h"
#include "net/links/generation_links.h"
#include "pipeline/boundary/boundary_cache.h"
#include "pipeline/boundary/link_memory.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/core/segments.h"

namespace shoal::pipeline {

enum class SendState : std::uint8_t {
  kIdle,
  kFetching,
  kFetchingWithValues,  // the layers were faster than the store
  kFetched,
  kEncoding,
  kSent,      // values kept: the receiver may ask again
  kReleased,  // the gradient came back, or nobody can ask again
};
enum class SendEvent : std::uint8_t { kFetch, kFetched, kValues, kEncoded, kResend, kRelease };
// The state after `event`, or nothing where the event is out of place.
std::optional<SendState> NextState(SendState state, SendEvent event);

enum class ReceiveState : std::uint8_t {
  kIdle,
  kFrameHeld,  // came before the window reached it
  kFetching,
  kFetchingWithFrame,
  kFetched,
  kMatching,  // passes at once to decoding or resend asked
  kResendAsked,
  kDecoding,
  kDecoded,
  kTaken,
};
enum class ReceiveEvent : std::uint8_t {
  kFetch,
  kFetched,
  kFrame,
  kMatch,
  kMismatch,
  kDecoded,
  kTake
};
std::optional<ReceiveState> NextState(ReceiveState state, ReceiveEvent event);

// What a direction carries, the same on both ends.
struct DirectionConfig {
  net::FrameKind kind = net::FrameKind::kActivation;
  std::uint32_t boundary = 0;
  std::shared_ptr<const compression::MessageCodec> codec;
  compression::SampleShape sample;  // a whole one
  Segments segments;
  std::uint32_t stages = 1;  // of the run
  std::uint64_t seed = 0;    // of the run

  bool forward() const { return kind == net::FrameKind::kActivation; }
  // No two segments draw the same random numbers.
  compression::RandomKey Key(std::uint64_t step, std::uint32_t global_index,
                             std::uint32_t segment) const {
    return {seed, step, segments.Transfer(global_index, segment), boundary, forward() ? 0u : 1u};
  }
  // Of gradients; `micro_batches`: of the step on this pipeline.
  compression::LinkPosition Position(std::size_t micro_batches, std::uint32_t micro_batch) const {
    return {stages, boundary + 1, static_cast<std::uint32_t>(micro_batches), micro_batch};
  }
};

// What both directions of a boundary work with. All outlive these.
struct TransferResources {
  Generation* generation = nullptr;
  const net::GenerationLinks* links = nullptr;
  Executor* codec = nullptr;
  TransferStats* stats = nullptr;
};

// The segment that a frame says it has; an error if its micro-batch has no such one.
Result<std::uint32_t> SegmentOf(const net::Frame& frame, const DirectionConfig& direction);
// Whether a frame fits what the plan says of its transfer: codec, shape, sizes, and exactly the
// samples at `positions`.
Status CheckTransfer(const net::Frame& frame, const DirectionConfig& direction,
                     const MicroBatchPlan& plan, std::span<const std::uint32_t> positions);

// One transfer.
struct ActivationSend {
  SendState state = SendState::kIdle;
  BoundaryCache::Records records;
  std::vector<bool> resent;        // by position: a sample is sent in full once at most
  compression::CodingStats stats;  // of what was sent first
};
// What the transfers of a micro-batch share.
struct SentMicroBatch {
  // Shared with the encoding tasks, and kept for a resend.
  std::shared_ptr<const Buffer> values;
  compression::DeltaMode mode = compression::DeltaMode::kDelta;
  SegmentedVisits visits;
  compression::CodingStats stats;
  std::vector<bool> resent;  // by position: any segment
};

class BoundarySender {
 public:
  using Send = std::function<Status(net::Frame)>;

  // `delta` is null if the codec keeps neither m nor a residual, `memory` if it is not stateful.
  BoundarySender(const TransferResources& resources, DirectionConfig direction,
                 BoundaryCache* delta, LinkMemory* memory, BoundaryStats* seen, Send send);

  std::uint32_t segments() const { return direction_.segments.count; }

  // Failed precondition if something of the step before is not sent yet.
  Status StartStep(const StepPlan& plan);
  // Reads m of micro-batches below `window` ahead.
  void Advance(std::uint32_t window);
  // rows x tokens x hidden fp32: each segment is encoded as soon as its m is there, in order, and
  // sent while the next one is being encoded.
  void PutValues(std::uint32_t micro_batch, Buffer values);
  // The receiver lacks the m that these samples build on.
  Status OnResend(const net::Frame& frame);
  // The gradient, or the first of it, came back: the receiver has the activation. Does nothing a
  // second time.
  Status Release(std::uint32_t micro_batch);

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
  void CountEncoded(std::uint32_t micro_batch, std::uint32_t segment,
                    const compression::CodingStats& stats,
                    const std::vector<std::uint32_t>& without_m,
                    std::optional<std::uint64_t> again);
  void AddVisits(std::uint64_t samples, std::uint64_t deltas, compression::DeltaMode mode);
  void Encoded(std::uint32_t micro_batch, net::Frame frame, std::vector<MImage> images);
  void Count(const compression::CodingStats& stats);
  void ChooseMode();
  void Go(ActivationSend* send, SendEvent event);

  const TransferResources resources_;
  Generation* const generation_;
  const DirectionConfig direction_;
  BoundaryCache* const delta_;
  LinkMemory* const memory_;
  BoundaryStats* const seen_;
  const Send send_;
  StepPlan plan_;
  std::vector<ActivationSend> sends_;  // by transfer
  std::vector<SentMicroBatch> micro_batches_;
  std::uint32_t window_ = 0;
  compression::DeltaGuard guard_;
  std::deque<std::uint32_t> waiting_;  // with `memory_`: micro-batches to encode after the next
  bool encoding_on_link_ = false;
};

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
  std::shared_ptr<Buffer> values;
  SegmentedVisits visits;
  std::vector<bool> asked_again;  // by position: any segment
};

class BoundaryReceiver {
 public:
  struct Handlers {
    std::function<Status(net::Frame)> send;  // a request to send again
    std::function<void()> on_ready;          // Ready() or HeldUpBy() may have changed
    std::function<void(Status)> on_bad;      // the other end sent what cannot be decoded
    std::function<void(std::uint32_t, std::span<const float>)> on_values;  // decoded; may be null
  };

  BoundaryReceiver(const TransferResources& resources, DirectionConfig direction,
                   BoundaryCache* delta, BoundaryStats* seen, Handlers handlers);

  // Failed precondition if something of the step before was not taken.
  Status StartStep(const StepPlan& plan);
  // Lets micro-batches below `window` be decoded, which bounds memory.
  void Advance(std::uint32_t window);
  // A frame of the running step from the other end; an error is its fault.
  Status OnFrame(net::Frame frame);
  // Micro-batches 0 .. Ready() - 1 are decoded (or taken).
  std::uint32_t Ready() const { return ready_; }
  // What holds up a micro-batch that is not decoded: nothing if not all of it has arrived.
  std::optional<Activity> HeldUpBy(std::uint32_t micro_batch) const;
  // The values of a decoded micro-batch, rows x tokens x hidden fp32.
  Buffer Take(std::uint32_t micro_batch);

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
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_ACTIVATION_LINK_H_
