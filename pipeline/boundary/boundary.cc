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
  BoundaryCache* const forward = m_[kForward].cache.get();
  BoundaryCache* const backward = m_[kBackward].cache.get();
  BoundaryCache* const gradients = backward != nullptr ? backward : residual_.get();
  out_ =
      std::make_unique<BoundarySender>(transfers, sender() ? forward_ : backward_,
                                       sender() ? forward : gradients, memory_.get(), &seen_, send);
  in_ =
      std::make_unique<BoundaryReceiver>(transfers, sender() ? backward_ : forward_,
                                         sender() ? backward : forward, &seen_, ReceiverHandlers());
}

BoundaryReceiver::Handlers Boundary::ReceiverHandlers() {
  BoundaryReceiver::Handlers handlers;
  handlers.send = [this](net::Frame frame) { return Send(std::move(frame)); };
  handlers.on_ready = handlers_.on_data;
  handlers.on_bad = [this](const Status& status) { FailByPeer(status); };
  if (memory_ != nullptr) {
    handlers.on_sampled = [this](std::uint32_t micro_batch, std::vector<float> sampled) {
      memory_->PutActivations(micro_batch, std::move(sampled));
    };
  }
  // A gradient tells by itself that its activation arrived; nothing else tells that a gradient did.
  if (sender() && m_[kBackward].cache != nullptr) {
    handlers.on_decoded = [this](std::uint32_t micro_batch) { SendReceived(micro_batch); };
  }
  return handlers;
}

void Boundary::MakeCaches(const BoundaryCache::Resources& resources) {
  using Side = storage::BoundarySide;
  const bool residual = !sender() && backward_.codec->keeps_residual();
  const bool forward = forward_.codec->keeps_m(), backward = backward_.codec->keeps_m();
  const std::uint64_t ahead = config_.prefetch_bytes / (forward && (backward || residual) ? 2 : 1);
  const auto make = [&](Side side, const DirectionConfig& direction) {
    return std::make_unique<BoundaryCache>(
        BoundaryCache::Config{{config_.run, direction.boundary, side},
                              direction.codec,
                              direction.segments,
                              config_.micro_batch_rows,
                              ahead,
                              config_.first_step},
        resources);
  };
  if (forward) m_[kForward].cache = make(side_, forward_);
  if (residual) residual_ = make(Side::kResidual, backward_);
  if (backward) {
    const Side side = sender() ? Side::kGradientReceiver : Side::kGradientSender;
    m_[kBackward].cache = make(side, backward_);
    seen_.gradients.emplace();
  }
  if (backward_.codec->stateful() == nullptr) return;
  seen_.low_rank.emplace();
  if (!sender()) memory_ = std::make_unique<LinkMemory>();
}

void Boundary::EachCache(const std::function<void(BoundaryCache*)>& use) const {
  for (BoundaryCache* cache :
       {m_[kForward].cache.get(), residual_.get(), m_[kBackward].cache.get()}) {
    if (cache != nullptr) use(cache);
  }
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
  for (const Direction direction : {kForward, kBackward}) {
    if (state_ != BoundaryState::kMatching || !Told(direction) || m_[direction].theirs) continue;
    return "the inventory of " + peer_name();
  }
  return "the own delta store";
}

// A link that is closed says so itself, and why.
Status Boundary::Send(net::Frame frame) {
  Status sent = link_->Send(std::move(frame));
  return sent.code() == StatusCode::kUnavailable ? Status::Ok() : sent;
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
  for (const Direction direction : {kForward, kBackward}) {
    if (!Told(direction)) continue;
    const auto have = [this, direction](BoundaryCache::Inventory inventory) {
      OnOwnInventory(direction, std::move(inventory));
    };
    if (m_[direction].cache == nullptr) {
      have({});
    } else {
      m_[direction].cache->ReadInventory(have);
    }
  }
}

void Boundary::OnOwnInventory(Direction direction, BoundaryCache::Inventory inventory) {
  m_[direction].own = std::move(inventory);
  if (state_ == BoundaryState::kMatching) SendInventory(direction);
  MaybeAgree();
}

void Boundary::OnLinkOpen() {
  SHOAL_ASSERT_ON(generation_->control());
  Go(BoundaryEvent::kLinkOpen);
  generation_->Progress();
  for (const Direction direction : {kForward, kBackward}) {
    if (m_[direction].own) SendInventory(direction);
  }
  MaybeAgree();
}

void Boundary::SendInventory(Direction direction) {
  net::Frame frame = resources_.links->NewFrame(net::FrameKind::kInventory, {});
  frame.tag = direction;
  frame.payload = EncodeInventory(*m_[direction].own);
  if (Status sent = Send(std::move(frame)); !sent.ok()) {
    generation_->Fail(sent.WithContext("cannot send the inventory to " + peer_name()));
  }
}

void Boundary::MaybeAgree() {
  if (state_ != BoundaryState::kMatching) return;
  for (const Direction direction : {kForward, kBackward}) {
    const SharedM& m = m_[direction];
    if (Told(direction) && (!m.own || !m.theirs)) return;
  }
  Go(BoundaryEvent::kInventories);
  const auto agreed = [this] {
    if (--agreeing_ > 0) return;
    Go(BoundaryEvent::kAgreed);
    generation_->Progress();
    handlers_.on_up();
  };
  agreeing_ = 1;  // this function
  for (SharedM& m : m_) {
    if (m.cache == nullptr) continue;
    ++agreeing_;
    m.cache->Agree(*std::exchange(m.own, BoundaryCache::Inventory()),
                   *std::exchange(m.theirs, BoundaryCache::Inventory()), agreed);
  }
  agreed();
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
      if (sender()) return AcceptOfStep(std::move(frame));
      break;
    case FrameKind::kResend: return AcceptOfStep(std::move(frame));
    case FrameKind::kReceived: return OnReceived(frame);
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

Result<Boundary::Direction> Boundary::DirectionOf(const net::Frame& frame) const {
  if (frame.tag == kForward || (frame.tag == kBackward && Told(kBackward))) {
    return static_cast<Direction>(frame.tag);
  }
  return InvalidArgument("m of direction " + std::to_string(frame.tag) +
                         ", of which this boundary keeps none");
}

Status Boundary::OnInventory(const net::Frame& frame) {
  SHOAL_ASSIGN_OR_RETURN(const Direction direction, DirectionOf(frame));
  SharedM& m = m_[direction];
  if (m.theirs) return InvalidArgument("a second inventory");
  SHOAL_ASSIGN_OR_RETURN(m.theirs, DecodeInventory(frame.payload.bytes()));
  MaybeAgree();
  return Status::Ok();
}

Status Boundary::OnEvicted(const net::Frame& frame) {
  SHOAL_ASSIGN_OR_RETURN(const Direction direction, DirectionOf(frame));
  BoundaryCache* const cache = m_[direction].cache.get();
  if (cache == nullptr) return InvalidArgument("losses of m, but the codec keeps none");
  SHOAL_ASSIGN_OR_RETURN(std::vector<SegmentId> segments, DecodeLosses(frame.payload.bytes()));
  return cache->OnTheirLosses(frame.micro_batch.step, std::move(segments));
}

// The receiver of gradients has all of a micro-batch.
Status Boundary::OnReceived(const net::Frame& frame) {
  if (sender() || m_[kBackward].cache == nullptr) {
    return InvalidArgument("this end of the boundary sends no gradients that build on m");
  }
  const std::uint64_t step = frame.micro_batch.step;
  if (state_ == BoundaryState::kStepping && step == step_) {
    SHOAL_RETURN_IF_ERROR(out_->Release(frame.micro_batch.index));
    handlers_.on_data();
    return Status::Ok();
  }
  // The step may have ended here before the last of them came.
  if (state_ == BoundaryState::kStepping && step < step_) return Status::Ok();
  return InvalidArgument("the gradient of " + Describe(frame.micro_batch) +
                         " was acknowledged before its step began");
}

void Boundary::SendReceived(std::uint32_t micro_batch) {
  net::Frame frame = resources_.links->NewFrame(net::FrameKind::kReceived, {step_, micro_batch});
  if (Status sent = Send(std::move(frame)); !sent.ok()) {
    generation_->Fail(sent.WithContext("cannot acknowledge gradients to " + peer_name()));
  }
}

void Boundary::PlanPrefetch(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  EachCache([&](BoundaryCache* cache) { cache->PlanPrefetch(plan); });
}

void Boundary::ExtendPlan(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  EachCache([&](BoundaryCache* cache) { cache->ExtendPlan(plan); });
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
  EachCache([](BoundaryCache* cache) { cache->DropStaged(); });
  if (memory_ != nullptr) memory_->DropStaged();
}

std::size_t Boundary::Commit(std::uint64_t step,
                             const std::function<void(BoundaryChecksum)>& done) {
  SHOAL_ASSERT_ON(generation_->control());
  std::size_t ends = residual_ != nullptr ? 1 : 0;
  for (const Direction direction : {kForward, kBackward}) {
    if (m_[direction].cache == nullptr) continue;
    ++ends;
    const auto stored = [this, direction, step](std::vector<SegmentId> lost) {
      SendLosses(direction, step, std::move(lost));
    };
    m_[direction].cache->Commit(step, {stored, done});
  }
  if (residual_ != nullptr) residual_->Commit(step, {nullptr, done});
  if (memory_ != nullptr) memory_->Commit();
  out_->stats().Commit();
  return ends;
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

void Boundary::SendLosses(Direction direction, std::uint64_t step,
                          std::vector<SegmentId> segments) {
  net::Frame frame = resources_.links->NewFrame(net::FrameKind::kEvicted, {step, 0});
  frame.tag = direction;
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
