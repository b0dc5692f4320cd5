#include "pipeline/boundary/boundary.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "pipeline/core/inventory.h"

namespace shoal::pipeline {
namespace {

// Micro-batches of the next step that may wait for it. The neighbour's bound on micro-batches in
// flight keeps it far below.
constexpr std::size_t kEarlyMax = 1024;

}  // namespace

std::string_view BoundaryStateName(BoundaryState state) {
  switch (state) {
    case BoundaryState::kNew: return "new";
    case BoundaryState::kOpening: return "opening the link";
    case BoundaryState::kMatching: return "waiting for inventories";
    case BoundaryState::kAgreeing: return "agreeing on what both ends have";
    case BoundaryState::kUp: return "waiting for the first step";
    case BoundaryState::kStepping: return "carrying steps";
  }
  return "unknown";
}

std::optional<BoundaryState> NextState(BoundaryState state, BoundaryEvent event) {
  struct Row {
    BoundaryState from;
    BoundaryEvent event;
    BoundaryState to;
  };
  static constexpr Row kTable[] = {
      {BoundaryState::kNew, BoundaryEvent::kOpen, BoundaryState::kOpening},
      {BoundaryState::kOpening, BoundaryEvent::kLinkOpen, BoundaryState::kMatching},
      {BoundaryState::kMatching, BoundaryEvent::kInventories, BoundaryState::kAgreeing},
      {BoundaryState::kAgreeing, BoundaryEvent::kAgreed, BoundaryState::kUp},
      {BoundaryState::kUp, BoundaryEvent::kStep, BoundaryState::kStepping},
      {BoundaryState::kStepping, BoundaryEvent::kStep, BoundaryState::kStepping},
  };
  for (const Row& row : kTable) {
    if (row.from == state && row.event == event) return row.to;
  }
  return std::nullopt;
}

DirectionConfig BoundaryConfig::Forward(std::uint32_t lower_stage) const {
  const Segments segments = Divide(*forward_codec, sample, micro_batch_rows, segment_bytes_min);
  return {net::FrameKind::kActivation,
          lower_stage,
          home,
          forward_codec,
          sample,
          segments,
          stages,
          seed,
          spot_checks};
}

DirectionConfig BoundaryConfig::Backward(std::uint32_t lower_stage) const {
  const Segments segments = Divide(*backward_codec, sample, micro_batch_rows, segment_bytes_min);
  return {
      net::FrameKind::kGradient, lower_stage, home, backward_codec, sample, segments, stages, seed};
}

Boundary::Boundary(BoundaryConfig config, const TransferResources& transfers,
                   const BoundaryCache::Resources& caches, storage::BoundarySide side,
                   const net::LinkTarget& target, Handlers handlers)
    : config_(std::move(config)),
      resources_(transfers),
      generation_(transfers.generation),
      side_(side),
      target_(target),
      handlers_(std::move(handlers)),
      forward_(config_.Forward(sender() ? config_.stage : config_.stage - 1)),
      backward_(config_.Backward(forward_.boundary)),
      evaluation_({sender(), config_.sample, config_.micro_batch_rows}, generation_,
                  transfers.links, [this](net::Frame frame) { return Send(std::move(frame)); }),
      next_step_(config_.first_step) {
  seen_.boundary = forward_.boundary;
  seen_.side = side;
  MakeCaches(caches);
  const auto send = [this](net::Frame frame) { return Send(std::move(frame)); };
  BoundaryReceiver::Handlers receive{send, handlers_.on_data,
                                     [this](const Status& status) { FailByPeer(status); }, nullptr};
  if (memory_ != nullptr) {
    receive.on_sampled = [this](std::uint32_t micro_batch, std::vector<float> sampled) {
      memory_->PutActivations(micro_batch, std::move(sampled));
    };
  }
  out_ = std::make_unique<BoundarySender>(transfers, sender() ? forward_ : backward_,
                                          sender() ? delta_.get() : residual_.get(), memory_.get(),
                                          &seen_, send);
  in_ = std::make_unique<BoundaryReceiver>(transfers, sender() ? backward_ : forward_,
                                           sender() ? nullptr : delta_.get(), &seen_,
                                           std::move(receive));
}

void Boundary::MakeCaches(const BoundaryCache::Resources& resources) {
  const bool residual = !sender() && backward_.codec->keeps_residual();
  const bool delta = forward_.codec->keeps_m();
  const std::uint64_t ahead = config_.prefetch_bytes / (delta && residual ? 2 : 1);
  const auto make = [&](storage::BoundarySide side, const DirectionConfig& direction) {
    return std::make_unique<BoundaryCache>(
        BoundaryCache::Config{{config_.run, direction.boundary, side},
                              direction.codec,
                              direction.segments,
                              config_.micro_batch_rows,
                              ahead,
                              config_.first_step},
        resources);
  };
  if (delta) delta_ = make(side_, forward_);
  if (residual) residual_ = make(storage::BoundarySide::kResidual, backward_);
  if (backward_.codec->stateful() == nullptr) return;
  seen_.low_rank.emplace();
  if (!sender()) memory_ = std::make_unique<LinkMemory>();
}

std::string Boundary::peer_name() const {
  SHOAL_ASSERT_ON(generation_->control());
  const std::uint32_t stage = sender() ? config_.stage + 1 : config_.stage - 1;
  return "peer " + target_.peer.ToShort() + " (stage " + std::to_string(stage) + ")";
}

std::string Boundary::Missing() const {
  SHOAL_ASSERT_ON(generation_->control());
  if (state_ == BoundaryState::kNew || state_ == BoundaryState::kOpening) {
    return "the link to " + peer_name();
  }
  if (state_ == BoundaryState::kMatching && !their_inventory_)
    return "the inventory of " + peer_name();
  return "the own delta store";
}

void Boundary::FailByPeer(const Status& status) {
  generation_->Fail(status.WithContext("from " + peer_name()), &target_.peer);
}

// Our own steps and the link's order of events make the events; a peer cannot.
void Boundary::Go(BoundaryEvent event) {
  const std::optional<BoundaryState> next = NextState(state_, event);
  SHOAL_CHECK(next.has_value());
  state_ = *next;
}

void Boundary::Open() {
  SHOAL_ASSERT_ON(generation_->control());
  Go(BoundaryEvent::kOpen);
  net::LinkHandlers handlers;
  handlers.on_open = [this] { OnLinkOpen(); };
  handlers.on_frame = [this](net::Frame frame) { OnFrame(std::move(frame)); };
  handlers.on_closed = [this](Status status) {
    if (status.ok()) status = Unavailable("it was closed");
    generation_->Fail(status.WithContext("the link to " + peer_name() + " broke"), &target_.peer);
  };
  handlers.on_sent = [this](net::FrameKind kind, MicroBatchId, double elapsed_ms) {
    OnSent(kind, elapsed_ms);
  };
  link_ = resources_.links->Open(target_, sender(), std::move(handlers));
  const auto have = [this](BoundaryCache::Inventory inventory) {
    own_inventory_ = std::move(inventory);
    if (state_ == BoundaryState::kMatching) SendInventory(*own_inventory_);
    MaybeAgree();
  };
  if (delta_ == nullptr) return have({});
  delta_->ReadInventory(have);
}

void Boundary::OnLinkOpen() {
  SHOAL_ASSERT_ON(generation_->control());
  Go(BoundaryEvent::kLinkOpen);
  generation_->Progress();
  if (own_inventory_) SendInventory(*own_inventory_);
  MaybeAgree();
}

void Boundary::SendInventory(BoundaryCache::Inventory inventory) {
  net::Frame frame = resources_.links->NewFrame(net::FrameKind::kInventory, {});
  frame.payload = EncodeInventory(inventory);
  if (Status sent = Send(std::move(frame)); !sent.ok()) {
    generation_->Fail(sent.WithContext("cannot send the inventory to " + peer_name()));
  }
}

void Boundary::MaybeAgree() {
  if (state_ != BoundaryState::kMatching || !own_inventory_ || !their_inventory_) return;
  Go(BoundaryEvent::kInventories);
  const auto up = [this] {
    Go(BoundaryEvent::kAgreed);
    own_inventory_->clear();
    their_inventory_->clear();
    generation_->Progress();
    handlers_.on_up();
  };
  if (delta_ == nullptr) return up();
  delta_->Agree(std::move(*own_inventory_), std::move(*their_inventory_), up);
}

void Boundary::OnFrame(net::Frame frame) {
  SHOAL_ASSERT_ON(generation_->control());
  if (generation_->ended()) return;
  generation_->Progress();
  Status status = resources_.links->CheckFrame(frame);
  if (status.ok()) status = Accept(std::move(frame));
  if (!status.ok()) FailByPeer(status);
}

Status Boundary::Accept(net::Frame frame) {
  using net::FrameKind;
  switch (frame.kind) {
    case FrameKind::kInventory: return OnInventory(frame);
    case FrameKind::kEvicted: return OnEvicted(frame);
    case FrameKind::kActivation:
      if (!sender()) return AcceptOfStep(std::move(frame));
      break;
    case FrameKind::kGradient:
    case FrameKind::kResend:
      if (sender()) return AcceptOfStep(std::move(frame));
      break;
    case FrameKind::kEvaluation: return OnEvaluation(std::move(frame));
    case FrameKind::kGroup:
    case FrameKind::kState:
    case FrameKind::kSpotCheck: break;
  }
  return InvalidArgument("a frame of kind " +
                         std::to_string(static_cast<std::uint32_t>(frame.kind)) +
                         " does not belong on this end of a boundary");
}

Status Boundary::AcceptOfStep(net::Frame frame) {
  const std::uint64_t step = frame.micro_batch.step;
  if (state_ == BoundaryState::kStepping && step == step_) {
    if (frame.kind == net::FrameKind::kResend) return out_->OnResend(frame);
    const std::uint32_t index = frame.micro_batch.index;
    // The neighbour may have heard before us that the step has more micro-batches.
    const bool extended = index >= in_->planned() && index < kMicroBatchesMax;
    if (!sender() && config_.extends && extended) return KeepEarly(std::move(frame));
    SHOAL_RETURN_IF_ERROR(in_->OnFrame(std::move(frame)));
    return sender() ? out_->Release(index) : Status::Ok();
  }
  return AcceptEarly(std::move(frame));
}

Status Boundary::OnEvaluation(net::Frame frame) {
  const std::uint64_t step = frame.micro_batch.step;
  if (state_ != BoundaryState::kStepping || step != step_) {
    // An acknowledgement may come behind the gradients that end the step.
    if (sender()) return Status::Ok();
    return AcceptEarly(std::move(frame));
  }
  SHOAL_RETURN_IF_ERROR(evaluation_.OnFrame(std::move(frame)));
  handlers_.on_data();
  return Status::Ok();
}

Status Boundary::AcceptEarly(net::Frame frame) {
  const std::uint64_t step = frame.micro_batch.step;
  const bool evaluation = frame.kind == net::FrameKind::kEvaluation;
  if (step != next_step_ || (frame.kind != net::FrameKind::kActivation && !evaluation)) {
    return InvalidArgument(Describe(frame.micro_batch) + " came while step " +
                           std::to_string(next_step_) + " is next");
  }
  return KeepEarly(std::move(frame));
}

// Until its micro-batch is planned here, too.
Status Boundary::KeepEarly(net::Frame frame) {
  const bool evaluation = frame.kind == net::FrameKind::kEvaluation;
  const Segments& segments = forward_.segments;
  const std::size_t frames = evaluation ? kEvaluationAhead : kEarlyMax * segments.count;
  const std::size_t bytes =
      evaluation ? evaluation_.bytes_max()
                 : forward_.codec->EncodedBytesMax(segments.shape, config_.micro_batch_rows);
  const auto waiting = static_cast<std::size_t>(
      std::count_if(early_.begin(), early_.end(),
                    [&](const net::Frame& other) { return other.kind == frame.kind; }));
  if (waiting >= frames || frame.payload.size() > bytes) {
    return ResourceExhausted("too much came ahead of its plan: " + Describe(frame.micro_batch));
  }
  early_.push_back(std::move(frame));
  return Status::Ok();
}

Status Boundary::OnInventory(const net::Frame& frame) {
  if (their_inventory_) return InvalidArgument("a second inventory");
  SHOAL_ASSIGN_OR_RETURN(their_inventory_, DecodeInventory(frame.payload.bytes()));
  MaybeAgree();
  return Status::Ok();
}

Status Boundary::OnEvicted(const net::Frame& frame) {
  if (delta_ == nullptr) return InvalidArgument("losses of m, but the codec keeps none");
  SHOAL_ASSIGN_OR_RETURN(std::vector<SegmentId> segments, DecodeLosses(frame.payload.bytes()));
  return delta_->OnTheirLosses(frame.micro_batch.step, std::move(segments));
}

void Boundary::PlanPrefetch(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  if (delta_ != nullptr) delta_->PlanPrefetch(plan);
  if (residual_ != nullptr) residual_->PlanPrefetch(plan);
}

void Boundary::ExtendPlan(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  if (delta_ != nullptr) delta_->ExtendPlan(plan);
  if (residual_ != nullptr) residual_->ExtendPlan(plan);
}

void Boundary::ExtendStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  ExtendPlan(plan);
  out_->ExtendStep(plan);
  in_->ExtendStep(plan);
  for (net::Frame& frame : std::exchange(early_, {})) OnFrame(std::move(frame));
}

Status Boundary::StartStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  if (!NextState(state_, BoundaryEvent::kStep)) {
    return FailedPrecondition("a step came while a boundary was " +
                              std::string(BoundaryStateName(state_)));
  }
  SHOAL_RETURN_IF_ERROR(out_->StartStep(plan));
  SHOAL_RETURN_IF_ERROR(in_->StartStep(plan));
  SHOAL_RETURN_IF_ERROR(evaluation_.StartStep(plan));
  Go(BoundaryEvent::kStep);
  step_ = plan.step;
  next_step_ = plan.step + 1;
  for (net::Frame& frame : std::exchange(early_, {})) OnFrame(std::move(frame));
  return Status::Ok();
}

void Boundary::DropStaged() {
  SHOAL_ASSERT_ON(generation_->control());
  if (delta_ != nullptr) delta_->DropStaged();
  if (residual_ != nullptr) residual_->DropStaged();
  if (memory_ != nullptr) memory_->DropStaged();
}

std::size_t Boundary::Commit(std::uint64_t step,
                             const std::function<void(BoundaryChecksum)>& done) {
  SHOAL_ASSERT_ON(generation_->control());
  const auto stored = [this, step](std::vector<SegmentId> lost) {
    SendLosses(step, std::move(lost));
  };
  if (delta_ != nullptr) delta_->Commit(step, {stored, done});
  if (residual_ != nullptr) residual_->Commit(step, {nullptr, done});
  if (memory_ != nullptr) memory_->Commit();
  out_->stats().Commit();
  return (delta_ != nullptr ? 1 : 0) + (residual_ != nullptr ? 1 : 0);
}

void Boundary::GoOnFrom(const KeptMemories& kept) {
  SHOAL_ASSERT_ON(generation_->control());
  const KeptBoundary* const own = kept.Find({forward_.boundary, sender()}, target_.peer);
  if (own == nullptr) return;
  out_->stats().GoOnFrom(own->guard);
  if (memory_ != nullptr && own->gradients != nullptr) memory_->GoOnFrom(own->gradients);
}

void Boundary::Keep(KeptMemories* kept) {
  SHOAL_ASSERT_ON(generation_->control());
  kept->Keep({forward_.boundary, sender()},
             {target_.peer, out_->stats().guard(), memory_ != nullptr ? memory_->kept() : nullptr});
}

void Boundary::SendLosses(std::uint64_t step, std::vector<SegmentId> segments) {
  net::Frame frame = resources_.links->NewFrame(net::FrameKind::kEvicted, {step, 0});
  frame.payload = EncodeLosses(std::move(segments));
  if (Status sent = Send(std::move(frame)); !sent.ok()) {
    generation_->Fail(sent.WithContext("cannot send losses of m to " + peer_name()));
  }
}

void Boundary::OnSent(net::FrameKind kind, double elapsed_ms) {
  SHOAL_ASSERT_ON(generation_->control());
  // The wire was busy with this frame since it was queued or since the frame before was done.
  const TimePoint now = generation_->clock().Now();
  const double busy = std::min(elapsed_ms, Milliseconds(now - last_sent_));
  last_sent_ = now;
  handlers_.on_sent(kind, std::max(busy, 0.0));
}

}  // namespace shoal::pipeline
