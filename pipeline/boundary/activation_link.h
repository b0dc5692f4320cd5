// The way of tensors over one boundary: activations forward, their gradients backward.
//
// A micro-batch travels in segments (segments.h). A transfer is a segment of a micro-batch in one
// direction. It has one ActivationSend at one end and one ActivationReceive at the other. Each is
// an enum state and one transition function. A direction holds those of the running step; whoever
// uses it counts in micro-batches. Gradients go the same way as activations; their codec may keep
// an m of its own, or a residual, which the sender reads and stages as it does m. The receiver
// knows nothing of residuals. A codec that remembers the link (link_memory.h) takes whole
// micro-batches, one after the other in the order in which they are put.
//
//   send     idle -> fetching -> fetched -> encoding -> sent -> released
//                        \-> fetching, values there -/     \-> encoding again (resend)
//   receive  idle -> fetching -> fetched -> matching -> decoding -> decoded -> taken
//              \-> frame held -> fetching, frame there -/  \-> resend asked -> matching
//
// AQ-SGD (paper section 3, algorithm 1) needs the same m on both ends. Every sample of a frame
// names version and checksum of the m it builds on. A sample that does not match is sent in full.
// Thread: control; coding runs on `codec`, m comes from `store` through BoundaryCache.

#ifndef SHOAL_PIPELINE_BOUNDARY_ACTIVATION_LINK_H_
#define SHOAL_PIPELINE_BOUNDARY_ACTIVATION_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compression/api/value_home.h"
#include "net/links/generation_links.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/core/segments.h"
#include "replica/step_types.h"

namespace shoal::pipeline {

enum class SendState : std::uint8_t {
  kIdle,
  kFetching,
  kFetchingWithValues,  // the layers were faster than the store
  kFetched,
  kEncoding,
  kSent,      // values kept: the receiver may ask again
  kReleased,  // the gradient came back, or was acknowledged: nobody can ask again
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

// What a direction carries, the same on both ends but for `home`.
struct DirectionConfig {
  net::FrameKind kind = net::FrameKind::kActivation;
  std::uint32_t boundary = 0;
  std::shared_ptr<const compression::ValueHome> home;      // where this end's values lie
  std::shared_ptr<const compression::MessageCodec> codec;  // for values there
  compression::SampleShape sample;                         // a whole one
  Segments segments;
  std::uint32_t stages = 1;  // of the run
  std::uint64_t seed = 0;    // of the run
  bool logged = false;       // its transfers have digests (evidence.h)

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
  replica::GradientMark* mark = nullptr;
};

// The segment that a frame says it has; an error if its micro-batch has no such one.
Result<std::uint32_t> SegmentOf(const net::Frame& frame, const DirectionConfig& direction);
// Whether a frame fits what the plan says of its transfer: codec, shape, sizes, and exactly the
// samples at `positions`.
Status CheckTransfer(const net::Frame& frame, const DirectionConfig& direction,
                     const MicroBatchPlan& plan, std::span<const std::uint32_t> positions);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_ACTIVATION_LINK_H_
