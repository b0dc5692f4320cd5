#include "pipeline/compute/step_compute.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/trace.h"
#include "pipeline/compute/micro_batch_rows.h"
#include "pipeline/core/link_progress.h"

namespace shoal::pipeline {
namespace {

// Micro-batches whose m is read, and which are decoded, ahead of the one that runs next.
constexpr std::uint32_t kAhead = 2;
// Where gradients are kept until they are acknowledged: micro-batches that may be, whatever memory
// there is, and the part of it that they may take. The other end decodes kAhead + 1 of them
// whatever it waits for.
constexpr std::uint64_t kHeldLeast = 4;
constexpr std::uint64_t kHeldPart = 8;

// New values count a fifth: quick enough to follow a line that changes, slow enough for noise.
void Average(double value, double* average, double weight = 0.2) {
  *average = *average == 0 ? value : (1 - weight) * *average + weight * value;
}

// Whether bounds changed enough to be news: they follow measured times.
bool Differs(const StepBounds& a, const StepBounds& b) {
  const auto far = [](std::uint32_t x, std::uint32_t y) {
    return 4 * std::uint64_t{std::max(x, y)} > 5 * std::uint64_t{std::min(x, y)} + 4;
  };
  return a.schedule != b.schedule || far(a.in_flight, b.in_flight) ||
         far(a.pending_weights_max, b.pending_weights_max);
}

Watched WatchedOf(OpKind kind) {
  switch (kind) {
    case OpKind::kForward: return Watched::kForward;
    case OpKind::kBackwardInput: return Watched::kBackwardInput;
    case OpKind::kBackwardWeights: break;
  }
  return Watched::kBackwardWeights;
}

// What a forward task owns.
struct ForwardTask {
  model::StageModel* model = nullptr;
  std::shared_ptr<const compression::ValueHome> home;
  std::shared_ptr<const dataset::PreparedData> data;
  bool first = false, last = false;
  model::MicroBatch micro_batch;  // its spans point into `rows`, but for the input
  Buffer input;
  std::size_t output_values = 0;
  BatchRows rows;  // once it has begun
  bool begun = false;
};

// The next part; whether more are left.
Result<bool> ForwardNow(ForwardTask* task, Buffer* output, model::StepLoss* loss) {
  if (!std::exchange(task->begun, true)) {
    SHOAL_RETURN_IF_ERROR(
        ReadRows(task->data.get(), task->first, task->last, &task->micro_batch, &task->rows));
    SHOAL_ASSIGN_OR_RETURN(*output, task->home->Allocate(task->output_values));
  }
  model::MicroBatch micro_batch = task->micro_batch;
  if (!task->first) micro_batch.input = std::as_const(task->input).floats();
  return task->model->ForwardPart(micro_batch, output->floats(), loss);
}

// The next part, whose input gradient has `count` values; whether more are left.
Result<bool> BackwardNow(model::StageModel* model, const compression::ValueHome& home,
                         MicroBatchId id, const Buffer& output_gradient, std::size_t count,
                         Buffer* input_gradient) {
  if (input_gradient->size() != count * sizeof(float)) {
    SHOAL_ASSIGN_OR_RETURN(*input_gradient, home.Allocate(count));
  }
  return model->BackwardInputPart(id, output_gradient.floats(), input_gradient->floats());
}

model::Pass PassOf(OpKind kind) {
  switch (kind) {
    case OpKind::kForward: return model::Pass::kForward;
    case OpKind::kBackwardInput: return model::Pass::kBackwardInput;
    case OpKind::kBackwardWeights: break;
  }
  return model::Pass::kBackwardWeights;
}

}  // namespace

StepCompute::StepCompute(const Config& config, Resources resources, Boundary* previous,
                         Boundary* next, Handlers handlers)
    : config_(config),
      resources_(std::move(resources)),
      generation_(resources_.generation),
      previous_(previous),
      next_(next),
      handlers_(std::move(handlers)),
      queue_(resources_.control, resources_.compute, generation_->scope()) {}

void StepCompute::StartStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  plan_ = plan;
  loss_ = {};
  losses_.clear();
  active_ = true;
  progress_ = {};
  progress_.micro_batches = static_cast<std::uint32_t>(plan.micro_batches.size());
  ChooseHeldMost();
  ChooseStepBounds();
  first_output_.reset();
  weights_ms_ = 0;
  final_parts_ = 0;
  resources_.stats->step = plan.step;
  resources_.stats->micro_batches = progress_.micro_batches;
  Pump();
}

StepReady StepCompute::Ready() const {
  SHOAL_ASSERT_ON(generation_->control());
  StepReady ready;
  ready.micro_batches = resources_.stats->micro_batches;
  ready.labels = loss_.labels;
  ready.loss_sum = loss_.sum;
  ready.times = times_;
  return ready;
}

void StepCompute::ExtendStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  SHOAL_CHECK(plan.step == plan_.step);
  plan_ = plan;
  active_ = true;
  progress_.micro_batches = static_cast<std::uint32_t>(plan.micro_batches.size());
  resources_.stats->micro_batches = progress_.micro_batches;
  Pump();
}

// Gradients that may be asked for again stay in memory beside the micro-batches in flight.
void StepCompute::ChooseHeldMost() {
  held_most_ = UINT32_MAX;
  held_bytes_ = 0;
  if (config_.activation_memory_bytes == 0 || previous_ == nullptr ||
      !previous_->out().keeps_values()) {
    return;
  }
  std::size_t rows = 1;
  for (const MicroBatchPlan& planned : plan_.micro_batches) {
    rows = std::max(rows, planned.samples.size());
  }
  const std::uint64_t bytes = rows * config_.sample.values() * sizeof(float);
  const std::uint64_t share = config_.activation_memory_bytes / kHeldPart / bytes;
  held_most_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, kHeldLeast, 1u << 20));
  held_bytes_ = std::min(held_most_ * bytes, config_.activation_memory_bytes / 2);
}

// Beside the control thread: it takes milliseconds. Until it is done, the bounds of the step before
// hold; any bounds may change at any time.
void StepCompute::ChooseStepBounds() {
  std::vector<StageTimes> timings = plan_.timings;
  if (timings.size() != config_.stages) timings.assign(config_.stages, {});
  StageTimes& own = timings[config_.stage];
  own.micro_batch_bytes = times_.micro_batch_bytes;
  own.pending_weights_bytes = times_.pending_weights_bytes;
  const BoundsRequest request{.stage = config_.stage,
                              .micro_batches = progress_.micro_batches,
                              .policy = config_.schedule,
                              .in_flight_max = config_.in_flight_max,
                              .previous = bounds_,
                              .memory_bytes = config_.activation_memory_bytes - held_bytes_};
  progress_.in_flight = bounds_.in_flight;
  progress_.pending_weights_max = bounds_.pending_weights_max;
  generation_->scope().Run(
      resources_.codec, "step.bounds",
      [timings = std::move(timings), request] { return ChooseBounds(timings, request); },
      [this](const StepBounds& bounds) {
        UseBounds(bounds);
        Pump();
      });
}

void StepCompute::UseBounds(const StepBounds& bounds) {
  bounds_ = bounds;
  resources_.stats->bounds = bounds;
  progress_.in_flight = bounds.in_flight;
  progress_.pending_weights_max = bounds.pending_weights_max;
  if (logged_ && !Differs(bounds, *logged_)) return;
  logged_ = bounds;
  SHOAL_LOG(kInfo, "pipeline", "step.schedule", {"step", plan_.step},
            {"schedule", ScheduleName(bounds.schedule)}, {"in_flight_max", bounds.in_flight},
            {"pending_weights_max", bounds.pending_weights_max},
            {"simulated_ms", bounds.simulated_ms}, {"unlimited_ms", bounds.unlimited_ms});
}

void StepCompute::Sent::Fold(std::uint32_t segments, double* average) {
  if (count > 0) Average(segments * sum_ms / count, average, 0.5);
  *this = {};
}

void StepCompute::NoteRoundTrip() {
  if (next_ == nullptr || !first_output_ || progress_.gradients_ready == 0) return;
  const Duration elapsed = generation_->clock().Now() - *first_output_;
  Average(Milliseconds(elapsed), &times_.round_trip_ms, 0.5);  // there is one a step only
  first_output_.reset();
}

void StepCompute::RefreshProgress() {
  progress_.inputs_ready = previous_ != nullptr ? previous_->in().Ready() : progress_.micro_batches;
  // On the last stage the gradient of the output starts at the loss.
  progress_.gradients_ready = next_ != nullptr ? next_->in().Ready() : progress_.forwards;
  if (held_most_ != UINT32_MAX) {
    progress_.gradients_ready =
        std::min(progress_.gradients_ready, previous_->out().releases() + held_most_);
  }
  NoteRoundTrip();
  resources_.stats->forwards = progress_.forwards;
  resources_.stats->backwards = progress_.backwards;
  if (next_ != nullptr) {
    next_->out().Advance(progress_.forwards + kAhead);
    next_->in().Advance(progress_.backwards + 1 + kAhead);
  }
  if (previous_ != nullptr) {
    previous_->in().Advance(progress_.forwards + 1 + kAhead);
    previous_->out().Advance(progress_.backwards + kAhead);
  }
}

void StepCompute::Pump() {
  SHOAL_ASSERT_ON(generation_->control());
  if (!active_) return;
  RefreshProgress();
  if (running_) return OfferNext();
  const std::optional<Op> op = NextOp(bounds_.schedule, progress_);
  if (op) {
    const std::shared_ptr<Operation> operation = Prepare(*op);
    Begin(*op);
    return queue_.Start(operation);
  }
  if (!AllDone(progress_)) {
    const Activity awaited = AwaitedActivity();
    resources_.activity->Become(awaited);
    return WatchWait(awaited);
  }
  active_ = false;
  if (next_ != nullptr) sent_forward_.Fold(next_->out().segments(), &times_.send_forward_ms);
  if (previous_ != nullptr) {
    sent_backward_.Fold(previous_->out().segments(), &times_.send_backward_ms);
  }
  handlers_.on_done();
}

// Not for the first frame of a step: the neighbour may measure the held-out loss or save before it.
void StepCompute::WatchWait(Activity activity) {
  const bool input = activity == Activity::kWaitInput;
  const bool frame = input ? progress_.inputs_ready > 0
                           : activity == Activity::kWaitGradient && progress_.gradients_ready > 0;
  Boundary* const boundary = input ? previous_ : next_;
  if (!frame || boundary == nullptr) return EndWait();
  const std::uint32_t mb = input ? progress_.forwards : progress_.backwards;
  if (wait_ && wait_->activity == activity && wait_->micro_batch == mb) return;
  EndWait();
  const Watched kind = input ? Watched::kWaitInput : Watched::kWaitGradient;
  wait_ = Wait{activity, mb, generation_->watch()->Begin(kind, Id(mb)),
               BytesOf(boundary->link_stats())};
}

void StepCompute::EndWait() {
  if (!wait_) return;
  generation_->watch()->End(wait_->token);
  wait_.reset();
}

// Most frames are there before they are needed: their wait of nothing is a usual one, too.
void StepCompute::NoteWait(const Op& op) {
  if (wait_) return EndWait();
  const bool input = op.kind == OpKind::kForward && previous_ != nullptr;
  const bool gradient = op.kind == OpKind::kBackwardInput && next_ != nullptr;
  if (!input && !gradient) return;
  OperationWatch& watch = *generation_->watch();
  watch.End(watch.Begin(input ? Watched::kWaitInput : Watched::kWaitGradient, Id(op.micro_batch)));
}

const PeerId* StepCompute::AwaitedPeer(Watched kind) const {
  SHOAL_ASSERT_ON(generation_->control());
  if (kind == Watched::kWaitInput) return &previous_->peer();
  return kind == Watched::kWaitGradient ? &next_->peer() : nullptr;
}

void StepCompute::ExcuseWait() {
  SHOAL_ASSERT_ON(generation_->control());
  if (!wait_) return;
  const bool input = wait_->activity == Activity::kWaitInput;
  const std::uint64_t bytes = BytesOf((input ? previous_ : next_)->link_stats());
  if (bytes - wait_->bytes < kProgressBytes) return;
  wait_->bytes = bytes;
  generation_->watch()->Excuse(wait_->token);
}

// Compute goes on with it by itself. F and B that run are counted already; a W is when it is over,
// and until then gives way to what is more urgent.
void StepCompute::OfferNext() {
  std::optional<Op> op = NextOp(bounds_.schedule, progress_);
  const bool weights = running_->kind == OpKind::kBackwardWeights;
  const bool urgent = weights && op && op->kind != OpKind::kBackwardWeights;
  if (weights && !urgent) {
    StageProgress after = progress_;
    Count(OpKind::kBackwardWeights, &after);
    op = NextOp(bounds_.schedule, after);
  }
  if (op == offered_ && urgent == offered_urgent_) return;
  if (!queue_.Offer(op ? Prepare(*op) : nullptr, urgent)) return;
  offered_ = op;
  offered_urgent_ = urgent;
}

void StepCompute::Begin(const Op& op) {
  NoteWait(op);
  running_ = op;
  offered_.reset();
  prepared_[static_cast<std::size_t>(op.kind)].reset();
  switch (op.kind) {
    case OpKind::kForward:
      resources_.activity->Become(Activity::kForward);
      return Count(op.kind, &progress_);
    case OpKind::kBackwardInput:
      resources_.activity->Become(Activity::kBackwardInput);
      return Count(op.kind, &progress_);
    case OpKind::kBackwardWeights: return resources_.activity->Become(Activity::kBackwardWeights);
  }
}

// An operation that was offered and not taken stays prepared: it has its input.
std::shared_ptr<Operation> StepCompute::Prepare(const Op& op) {
  std::shared_ptr<Operation>& prepared = prepared_[static_cast<std::size_t>(op.kind)];
  if (prepared != nullptr && op.kind != OpKind::kBackwardWeights) return prepared;
  switch (op.kind) {
    case OpKind::kForward: return prepared = Forward(op.micro_batch);
    case OpKind::kBackwardInput: return prepared = BackwardInput(op.micro_batch);
    case OpKind::kBackwardWeights: return prepared = BackwardWeights(op.micro_batch);
  }
  return nullptr;
}

Activity StepCompute::AwaitedActivity() const {
  const bool input = HasRoom(progress_);
  const Activity remote = input ? Activity::kWaitInput : Activity::kWaitGradient;
  Boundary* const boundary = input ? previous_ : next_;
  if (boundary == nullptr) return remote;
  return boundary->in().HeldUpBy(input ? progress_.forwards : progress_.backwards).value_or(remote);
}

std::shared_ptr<Operation> StepCompute::MakeOperation(const char* what, Op op, Work work,
                                                      std::function<void(Done&)> then) {
  auto operation = std::make_shared<Operation>();
  auto done = std::make_shared<Done>();
  operation->name = what;
  operation->run = [work = std::move(work), done, clock = &generation_->clock(),
                    watch = generation_->watch(), kind = WatchedOf(op.kind),
                    id = Id(op.micro_batch)] {
    const WatchedSpan span(watch, kind, id);
    const TimePoint start = clock->Now();
    const PartEnd end = work(done.get());
    done->ms += Milliseconds(clock->Now() - start);
    done->more = end == PartEnd::kMore;
    return done->status.ok() ? end : PartEnd::kFailed;
  };
  if (gate_ != nullptr) {
    operation->before = [this, op](std::function<void()> go) {
      gate_->Before(PassOf(op.kind), op.micro_batch, std::move(go));
    };
  }
  operation->ended = [this, what, op, done, then = std::move(then)](bool followed) {
    if (gate_ != nullptr) gate_->Stopped();
    running_.reset();
    generation_->Progress();
    if (!done->status.ok()) {
      return generation_->Fail(
          std::move(done->status)
              .WithContext(std::string(what) + " of " + Describe(Id(op.micro_batch))));
    }
    if (followed) Begin(Op(*offered_));
    then(*done);
    Pump();
  };
  return operation;
}

std::shared_ptr<Operation> StepCompute::Forward(std::uint32_t mb) {
  Trace("mb.scheduled", Id(mb));
  auto task = std::make_shared<ForwardTask>();
  task->model = resources_.model;
  task->home = resources_.home;
  task->data = resources_.data;
  task->first = config_.stage == 0;
  task->last = config_.stage + 1 == config_.stages;
  if (previous_ != nullptr) task->input = previous_->in().Take(mb);
  task->micro_batch.id = Id(mb);
  task->micro_batch.samples = plan_.micro_batches[mb].samples;
  task->micro_batch.rows = static_cast<std::uint32_t>(task->micro_batch.samples.size());
  task->micro_batch.tokens = config_.sample.tokens;
  if (!task->last) {
    task->output_values = task->micro_batch.rows * config_.sample.values();
  }
  auto work = [task](Done* done) {
    const TimePoint traced = TraceStart();
    const Result<bool> more = ForwardNow(task.get(), &done->out, &done->loss);
    done->status = more.status();
    TraceSpan("mb.forward", task->micro_batch.id, traced);
    return more.ok() && *more ? PartEnd::kMore : PartEnd::kOver;
  };
  return MakeOperation("forward", {OpKind::kForward, mb}, std::move(work), [this, mb](Done& done) {
    Average(done.ms, &times_.forward_ms);
    // The stages behind may be at an evaluation yet, which is no part of a round trip.
    if (mb == 0 && plan_.evaluation.empty()) first_output_ = generation_->clock().Now();
    if (next_ != nullptr) return next_->out().PutValues(mb, std::move(done.out));
    loss_.sum += done.loss.sum;
    loss_.labels += done.loss.labels;
    losses_.push_back(done.loss.sum);
  });
}

std::shared_ptr<Operation> StepCompute::BackwardInput(std::uint32_t mb) {
  const std::size_t values = plan_.micro_batches[mb].samples.size() * config_.sample.values();
  auto gradient =
      std::make_shared<const Buffer>(next_ != nullptr ? next_->in().Take(mb) : Buffer());
  auto work = [model = resources_.model, home = resources_.home, id = Id(mb), gradient,
               count = previous_ != nullptr ? values : 0](Done* done) {
    const TimePoint traced = TraceStart();
    const Result<bool> more = BackwardNow(model, *home, id, *gradient, count, &done->out);
    done->status = more.status();
    TraceSpan("mb.backward", id, traced);
    return more.ok() && *more ? PartEnd::kMore : PartEnd::kOver;
  };
  return MakeOperation("backward.input", {OpKind::kBackwardInput, mb}, std::move(work),
                       [this, mb](Done& done) {
                         Average(done.ms, &times_.backward_input_ms);
                         if (previous_ == nullptr) return;
                         previous_->out().PutValues(mb, std::move(done.out));
                       });
}

std::shared_ptr<Operation> StepCompute::BackwardWeights(std::uint32_t mb) {
  auto work = [model = resources_.model, id = Id(mb),
               tell = mb + 1 == progress_.micro_batches ? FinalPartTeller() : nullptr](Done* done) {
    const TimePoint traced = TraceStart();
    const Result<bool> more = model->BackwardWeights(id);
    done->status = more.status();
    TraceSpan("mb.weights", id, traced);
    if (tell && more.ok()) tell();
    return more.ok() && *more ? PartEnd::kMore : PartEnd::kOver;
  };
  return MakeOperation("backward.weights", {OpKind::kBackwardWeights, mb}, std::move(work),
                       [this](Done& done) {
                         weights_ms_ += done.ms;
                         if (done.more) return;
                         Count(OpKind::kBackwardWeights, &progress_);
                         ++resources_.stats->micro_batches_done;
                         Average(std::exchange(weights_ms_, 0), &times_.backward_weights_ms);
                       });
}

std::function<void()> StepCompute::FinalPartTeller() {
  return [this, control = resources_.control, cancelled = generation_->scope().token()] {
    control->Post("gradients.final", [this, cancelled] {
      if (!*cancelled) handlers_.on_final_gradients(++final_parts_);
    });
  };
}

void StepCompute::NoteSent(net::FrameKind kind, double elapsed_ms) {
  SHOAL_ASSERT_ON(generation_->control());
  if (kind == net::FrameKind::kActivation) sent_forward_.Add(elapsed_ms);
  if (kind == net::FrameKind::kGradient) sent_backward_.Add(elapsed_ms);
}

std::string StepCompute::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(generation_->control());
  *peer = nullptr;
  if (running_) return "an operation of this peer's model";
  const bool input = HasRoom(progress_);
  Boundary* const boundary = input ? previous_ : next_;
  if (boundary == nullptr) return "this peer's store or codec";
  *peer = &boundary->peer();
  return (input ? "the activation of " : "the gradient of ") +
         Describe(Id(input ? progress_.forwards : progress_.backwards)) + " from " +
         boundary->peer_name();
}

}  // namespace shoal::pipeline
