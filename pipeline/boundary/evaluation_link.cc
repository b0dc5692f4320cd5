#include "pipeline/boundary/evaluation_link.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shoal::pipeline {
namespace {

// Tags of the frames.
constexpr std::uint64_t kValues = 0;
constexpr std::uint64_t kNotFinite = 1;  // no payload
constexpr std::uint64_t kTaken = 2;      // an acknowledgement: no payload

std::string WhatOf(const net::Frame& frame) {
  return "evaluation of " + Describe(frame.micro_batch);
}

constexpr std::size_t kHeaderBytesMax = 64;  // more than a message of kEvaluationCodec has
constexpr std::size_t kValueBytes = 2;

}  // namespace

std::size_t EvaluationLink::bytes_max() const {
  SHOAL_ASSERT_ON(generation_->control());
  return kHeaderBytesMax + config_.rows * config_.sample.values() * kValueBytes;
}

Status EvaluationLink::StartStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  if (!arrived_.empty()) {
    return FailedPrecondition("step " + std::to_string(plan.step) +
                              " begins before the last evaluation is over");
  }
  step_ = plan.step;
  micro_batches_ = static_cast<std::uint32_t>(plan.evaluation.size());
  sent_ = acknowledged_ = taken_ = 0;
  return Status::Ok();
}

Status EvaluationLink::OnFrame(net::Frame frame) {
  SHOAL_ASSERT_ON(generation_->control());
  if (!frame.samples.empty()) return InvalidArgument(WhatOf(frame) + " names samples");
  return config_.sender ? OnAcknowledged(frame) : OnMessage(std::move(frame));
}

// Says that this micro-batch and all before it are taken.
Status EvaluationLink::OnAcknowledged(const net::Frame& frame) {
  const std::uint32_t index = frame.micro_batch.index;
  if (frame.tag != kTaken || !frame.payload.empty() || index >= sent_) {
    return InvalidArgument(WhatOf(frame) + " is acknowledged, but was not sent");
  }
  acknowledged_ = std::max(acknowledged_, index + 1);
  return Status::Ok();
}

Status EvaluationLink::OnMessage(net::Frame frame) {
  const std::uint32_t index = frame.micro_batch.index;
  if (index < taken_ || index >= micro_batches_ || arrived_.contains(index)) {
    return InvalidArgument(WhatOf(frame) + " came twice, or the step does not have it");
  }
  if (index - taken_ >= kEvaluationAhead) {
    return ResourceExhausted(WhatOf(frame) + " came before earlier ones were taken");
  }
  if (frame.payload.size() > bytes_max() || frame.tag > kNotFinite ||
      (frame.tag == kNotFinite) != frame.payload.empty()) {
    return InvalidArgument(WhatOf(frame) + " has tag " + std::to_string(frame.tag) + " and " +
                           std::to_string(frame.payload.size()) + " bytes");
  }
  if (frame.codec != kEvaluationCodec || frame.tokens != config_.sample.tokens ||
      frame.hidden != config_.sample.hidden) {
    return InvalidArgument(WhatOf(frame) + " has another codec or shape than " + kEvaluationCodec +
                           " and " + std::to_string(config_.sample.tokens) + " x " +
                           std::to_string(config_.sample.hidden));
  }
  arrived_.emplace(
      index, frame.tag == kNotFinite ? std::nullopt : EvaluationMessage(std::move(frame.payload)));
  return Status::Ok();
}

net::Frame EvaluationLink::NewFrame(std::uint32_t micro_batch) const {
  return links_->NewFrame(net::FrameKind::kEvaluation, {step_, micro_batch});
}

Status EvaluationLink::Put(EvaluationMessage message) {
  SHOAL_ASSERT_ON(generation_->control());
  SHOAL_CHECK(config_.sender && HasRoom() && sent_ < micro_batches_);
  net::Frame frame = NewFrame(sent_++);
  frame.tag = message.has_value() ? kValues : kNotFinite;
  frame.codec = kEvaluationCodec;
  frame.tokens = config_.sample.tokens;
  frame.hidden = config_.sample.hidden;
  if (message.has_value()) frame.payload = std::move(*message);
  return send_(std::move(frame));
}

Result<EvaluationMessage> EvaluationLink::Take() {
  SHOAL_ASSERT_ON(generation_->control());
  SHOAL_CHECK(!config_.sender && HasNext());
  EvaluationMessage message = std::move(arrived_.extract(taken_).mapped());
  net::Frame frame = NewFrame(taken_++);
  frame.tag = kTaken;
  SHOAL_RETURN_IF_ERROR(send_(std::move(frame)));
  return message;
}

}  // namespace shoal::pipeline
