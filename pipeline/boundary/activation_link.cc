#include "pipeline/boundary/activation_link.h"

#include <string>

namespace shoal::pipeline {

std::optional<SendState> NextState(SendState state, SendEvent event) {
  using S = SendState;
  using E = SendEvent;
  switch (state) {
    case S::kIdle:
      if (event == E::kFetch) return S::kFetching;
      break;
    case S::kFetching:
      if (event == E::kFetched) return S::kFetched;
      if (event == E::kValues) return S::kFetchingWithValues;
      break;
    case S::kFetchingWithValues:
      if (event == E::kFetched) return S::kEncoding;
      break;
    case S::kFetched:
      if (event == E::kValues) return S::kEncoding;
      break;
    case S::kEncoding:
      if (event == E::kEncoded) return S::kSent;
      break;
    case S::kSent:
      if (event == E::kResend) return S::kEncoding;
      if (event == E::kRelease) return S::kReleased;
      break;
    case S::kReleased: break;
  }
  return std::nullopt;
}

std::optional<ReceiveState> NextState(ReceiveState state, ReceiveEvent event) {
  using S = ReceiveState;
  using E = ReceiveEvent;
  switch (state) {
    case S::kIdle:
      if (event == E::kFetch) return S::kFetching;
      if (event == E::kFrame) return S::kFrameHeld;
      break;
    case S::kFrameHeld:
      if (event == E::kFetch) return S::kFetchingWithFrame;
      break;
    case S::kFetching:
      if (event == E::kFetched) return S::kFetched;
      if (event == E::kFrame) return S::kFetchingWithFrame;
      break;
    case S::kFetchingWithFrame:
      if (event == E::kFetched) return S::kMatching;
      break;
    case S::kFetched:
      if (event == E::kFrame) return S::kMatching;
      break;
    case S::kMatching:
      if (event == E::kMatch) return S::kDecoding;
      if (event == E::kMismatch) return S::kResendAsked;
      break;
    case S::kResendAsked:
      if (event == E::kFrame) return S::kMatching;
      break;
    case S::kDecoding:
      if (event == E::kDecoded) return S::kDecoded;
      break;
    case S::kDecoded:
      if (event == E::kTake) return S::kTaken;
      break;
    case S::kTaken: break;
  }
  return std::nullopt;
}

Result<std::uint32_t> SegmentOf(const net::Frame& frame, const DirectionConfig& direction) {
  if (frame.tag < direction.segments.count) return static_cast<std::uint32_t>(frame.tag);
  return InvalidArgument(Describe(frame.micro_batch) + " has " +
                         std::to_string(direction.segments.count) + " segments, none with number " +
                         std::to_string(frame.tag));
}

Status CheckTransfer(const net::Frame& frame, const DirectionConfig& direction,
                     const MicroBatchPlan& plan, std::span<const std::uint32_t> positions) {
  const compression::SampleShape shape = direction.segments.shape;
  const std::string what = Describe(frame.micro_batch);
  if (frame.codec != direction.codec->spec()) {
    return InvalidArgument(what + " was coded by " + frame.codec.substr(0, 80) + " instead of " +
                           direction.codec->spec());
  }
  if (frame.tokens != shape.tokens || frame.hidden != shape.hidden) {
    return InvalidArgument(what + " has rows of " + std::to_string(frame.tokens) + " x " +
                           std::to_string(frame.hidden) + " values instead of " +
                           std::to_string(shape.tokens) + " x " + std::to_string(shape.hidden));
  }
  if (frame.samples.size() != positions.size()) {
    return InvalidArgument(what + " has " + std::to_string(frame.samples.size()) +
                           " samples instead of " + std::to_string(positions.size()));
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const net::FrameSample& sample = frame.samples[i];
    if (sample.sample != plan.samples[positions[i]]) {
      return InvalidArgument(what + " has sample " + std::to_string(sample.sample.value) +
                             " where the plan has sample " +
                             std::to_string(plan.samples[positions[i]].value));
    }
    if (sample.base_version != 0 && !direction.codec->keeps_m()) {
      return InvalidArgument(what + " builds on an earlier activation, but its codec cannot");
    }
  }
  const std::size_t most = direction.codec->EncodedBytesMax(shape, positions.size());
  if (frame.payload.size() <= most) return Status::Ok();
  return InvalidArgument(what + " has " + std::to_string(frame.payload.size()) +
                         " bytes; its codec makes " + std::to_string(most) + " at most");
}

}  // namespace shoal::pipeline
