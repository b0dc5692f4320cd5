// The methods that agree on momenta, `qadam` and `onebit` (1-bit Adam: Tang et al., ICML 2021;
// AQ-SGD, section on gradient compression). While the variance warms up, the group sums gradients
// exactly. Afterwards the variance is frozen. Every member folds its own gradient into the common
// momentum. The group agrees on the mean of these momenta, quantised with error feedback at both
// ends.
//
// Exchanges go bucket by bucket, as in gradient_step.cc. A gradient counts by the factor clip x
// members / labels, which is known at Reduce. Clipping uses the root mean square of the norms of
// the pipelines' own gradients, as no member computes the norm of their mean. Sums of exact steps
// are scaled in Apply. Momenta are folded with the factor of an earlier step. The exchange is
// linear in that factor, so Reduce scales the result by true / assumed, and Apply the change of the
// error memories. Where that ratio is too large, or other pipelines count than assumed, a second
// round of the step starts with the true factor. A step that was dealt out again has rounds of its
// own, and folds with Reduce only, when the factor is known.

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "common/task_scope.h"
#include "optimizer/adamw.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/exchange.h"
#include "replica/gradient_buckets.h"
#include "replica/methods/group_limits.h"
#include "replica/methods/momentum_method.h"
#include "replica/momentum_apply.h"
#include "replica/replica_step.h"
#include "replica/state/error_keeper.h"

namespace shoal::replica {
namespace {

using model::StateVector;

// A step's first round, and the one behind a wrong guess; each time that it is dealt out.
constexpr std::uint64_t kRoundsPerDeal = 2;
constexpr std::uint64_t kRoundsPerStep = kRoundsPerDeal * (kAmendmentsMax + 1);
constexpr char kMomenta[] = "momenta";  // kept errors of these
// The factor assumed is the largest of so many steps before. Too large a factor costs some accuracy
// of the step, too small a factor a second round.
constexpr std::size_t kFactorsKept = 4;

class MomentumStep final : public ReplicaStep {
 public:
  explicit MomentumStep(const ReplicaContext& context)
      : member_(context.member),
        links_(context.links),
        method_(context.method),
        schedule_{MomentumOptionsOf(method_).warm_up.StartOf(context.member->config.steps),
                  MomentumOptionsOf(method_).refresh},
        scope_(member_->control) {}

  Status Init(const ReplicaContext& context);
  void OnFinalGradients(std::uint64_t step, std::size_t parts) override;
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  Status Reopen() override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  void KeepErrors(ErrorKeeper* keeper) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  // A bucket and its two exchanges, which are never in use at the same time.
  struct Bucket {
    GradientBucket layout;
    collective::GroupChannel* group = nullptr;
    BucketQueue* queue = nullptr;  // of its part
    std::size_t number = 0;        // there
    std::unique_ptr<collective::Exchange> exact;
    std::unique_ptr<collective::BlendingExchange> compressed;
    bool begun = false;              // in the running step
    std::shared_ptr<Buffer> own;     // gradient or momentum, until its exchange has ended
    std::optional<Buffer> result;    // of its exchange, not used yet
    bool written = false;            // the sum is in the model, in the place of memory.gradient
    std::shared_ptr<Buffer> agreed;  // momentum of the running step, as it will be applied
    double squared_norm = 0;         // of it
    MomentumValues memory;           // kept between steps, where nothing is at work in it
  };

  Status AddBuckets(const std::shared_ptr<const ParameterGroup>& part);
  Status AddExchanges(Bucket* bucket, collective::ChannelMux* mux, std::size_t number);
  collective::Exchange* ExchangeOf(const Bucket& bucket) const {
    return exact_ ? bucket.exact.get() : bucket.compressed.get();
  }
  void BeginStep(std::uint64_t step);
  bool follows() const { return !std::ranges::binary_search(pipelines_, member_->config.pipeline); }
  void Drop(Bucket* bucket);
  std::uint64_t FirstRound() const { return kRoundsPerDeal * member_->amendment; }
  void Believe(const ReduceOrder& order);
  void Read(Bucket* bucket);
  void Fold(Bucket* bucket, MomentumValues values);
  void HaveOwn(Bucket* bucket, Buffer values);
  void Exchange(Bucket* bucket);
  void Use(Bucket* bucket);
  void UseSum(Bucket* bucket);
  void UseMomentum(Bucket* bucket);
  void Scale(Bucket* bucket, Buffer before, Buffer mean);
  void FinishLane();
  void Finish(Result<double> norm);
  void Skip();
  void ApplyLanes(const ApplyOrder& order);
  void FinishApply(const Status& status);

  Member* const member_;
  const GroupLinks* const links_;
  const ReplicaMethod method_;
  const optimizer::VarianceSchedule schedule_;
  FinalParts final_after_;
  std::vector<std::unique_ptr<collective::ChannelMux>> muxes_;  // by part
  std::vector<std::unique_ptr<BucketQueue>> queues_;            // by part
  std::deque<Bucket> buckets_;
  // True ones of this generation's last steps; from Reduce to Apply with the running one's.
  std::deque<double> factors_;
  std::uint64_t step_ = 0;     // running
  bool exact_ = true;          // it agrees on gradients
  bool began_ = false;         // it
  bool believed_ = false;      // the newest of the factors is its
  std::uint64_t attempt_ = 0;  // of its rounds
  std::uint64_t work_ = 0;     // grows with rounds that begin anew: older work counts for nothing
  double assumed_ = 0;         // factor of its fold; 0: none is known before Reduce
  double blend_ = 1;           // true / assumed factor
  double clip_ = 1;
  std::vector<std::uint32_t> pipelines_;  // that count in it, as far as is known
  Status early_error_;                    // came before Reduce
  ReduceOrder order_;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::function<void(Status)> applied_;       // null: no Apply is
  std::size_t buckets_left_ = 0;              // of Reduce
  std::size_t tasks_left_ = 0;                // of Apply
  TaskScope scope_;                           // last: its tasks use what is above
};

Status MomentumStep::Init(const ReplicaContext& context) {
  SHOAL_ASSERT_ON(*member_->control);
  final_after_ = context.final_after;
  for (const auto& part : context.parts) SHOAL_RETURN_IF_ERROR(AddBuckets(part));
  return Status::Ok();
}

Status MomentumStep::AddBuckets(const std::shared_ptr<const ParameterGroup>& part) {
  std::vector<GradientBucket> buckets =
      CutBuckets(part, final_after_, member_->config.bucket_values_min);
  muxes_.push_back(std::make_unique<collective::ChannelMux>(
      part->channel, 2 * buckets.size(), [member = member_](const Status& status) {
        member->fail(status.WithContext("inside the stage group"), nullptr);
      }));
  queues_.push_back(std::make_unique<BucketQueue>(
      [this, first = buckets_.size()](std::size_t i) { Exchange(&buckets_[first + i]); }));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.layout = std::move(buckets[i]);
    bucket.group = part->channel;
    bucket.queue = queues_.back().get();
    bucket.number = bucket.queue->Add(bucket.layout.part->values);
    SHOAL_RETURN_IF_ERROR(AddExchanges(&bucket, muxes_.back().get(), i));
  }
  return Status::Ok();
}

Status MomentumStep::AddExchanges(Bucket* bucket, collective::ChannelMux* mux, std::size_t number) {
  collective::ExchangeConfig config;
  config.row = kReplicaRow;
  config.seed = SeedOf(member_->config.seed, number);
  config.epoch = member_->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * bucket->layout.part->values;
  config.reuse_memory = true;
  // Codes and sums run beside the model, which is at work on the other buckets.
  Executor* const compute = member_->codec;
  SHOAL_ASSIGN_OR_RETURN(
      bucket->exact,
      collective::NewDirectExchange(config, mux->channel(2 * number), member_->control, compute));
  config.codec = method_.codec;
  config.error_feedback = method_.feedback;
  SHOAL_ASSIGN_OR_RETURN(bucket->compressed,
                         collective::NewBlendingExchange(config, mux->channel(2 * number + 1),
                                                         member_->control, compute));
  if (member_->errors == nullptr) return Status::Ok();
  bucket->compressed->Adopt(
      member_->errors->Take(VectorName(kMomenta, *bucket->layout.part)).errors);
  return Status::Ok();
}

void MomentumStep::KeepErrors(ErrorKeeper* keeper) {
  SHOAL_ASSERT_ON(*member_->control);
  for (Bucket& bucket : buckets_) {
    keeper->Keep(VectorName(kMomenta, *bucket.layout.part), {bucket.compressed->TakeErrors()});
  }
}

// ---- before Reduce ----

// Everything here is the same on all members: they had the same orders in this generation.
void MomentumStep::BeginStep(std::uint64_t step) {
  step_ = step;
  if (std::exchange(began_, true)) return;
  attempt_ = FirstRound();
  exact_ = optimizer::UpdatesVariance(schedule_, step);
  assumed_ = factors_.empty() ? 0 : *std::max_element(factors_.begin(), factors_.end());
  pipelines_ = PlannedPipelines(*member_);
}

void MomentumStep::OnFinalGradients(std::uint64_t step, std::size_t parts) {
  SHOAL_ASSERT_ON(*member_->control);
  if (member_->amendment > 0) return;
  BeginStep(step);
  if (!exact_ && assumed_ == 0) return;
  for (Bucket& bucket : buckets_) {
    if (!bucket.begun && bucket.layout.final_after <= parts) Read(&bucket);
  }
}

void MomentumStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!done_);
  BeginStep(order.step);
  order_ = order;
  done_ = std::move(done);
  buckets_left_ = buckets_.size();
  if (!early_error_.ok()) {
    return scope_.Post("momentum.failed", [this, error = early_error_, work = work_] {
      if (work == work_) Finish(error);
    });
  }
  Believe(order);
  for (Bucket& bucket : buckets_) {
    if (!bucket.begun) {
      Read(&bucket);
    } else if (attempt_ > FirstRound()) {
      ExchangeOf(bucket)->Rollback();
      bucket.own = nullptr;  // its work may still read it
      bucket.result.reset();
      Read(&bucket);
    } else if (bucket.result) {
      Use(&bucket);
    }
  }
}

// What the step's end tells of its factor; the same on all members, bit for bit.
void MomentumStep::Believe(const ReduceOrder& order) {
  clip_ = ClipOf(*member_, order);
  const double factor =
      clip_ * (static_cast<double>(order.pipelines.size()) / static_cast<double>(order.labels));
  factors_.push_back(factor);
  believed_ = true;
  blend_ = exact_ || assumed_ == 0 ? 1 : factor / assumed_;
  const bool amended = member_->amendment > 0;  // no exchange has begun
  const bool guessed = order.pipelines == pipelines_ && collective::MayBlend(blend_);
  pipelines_ = order.pipelines;
  if (!guessed && !amended) {
    ++attempt_;
    ++work_;
    for (const auto& queue : queues_) queue->Restart();
  }
  if (!guessed || amended || assumed_ == 0) {
    assumed_ = factor;
    blend_ = 1;
  }
}

// Gradients are summed over the members. Momenta are averaged: the group's momentum takes the place
// of a member's own, and one of two ends stands for both. The compute thread only reads and writes
// the model. Codec threads do the arithmetic of all buckets at once, value by value, so the result
// does not depend on the number of threads.
void MomentumStep::Read(Bucket* bucket) {
  bucket->begun = true;
  auto read = [model = member_->model, from = bucket->layout.part, exact = exact_,
               mark = member_->mark,
               values = std::exchange(bucket->memory, {})]() mutable -> Result<MomentumValues> {
    const std::size_t bytes = from->values * sizeof(float);
    values.gradient = Sized(std::move(values.gradient), bytes);
    SHOAL_RETURN_IF_ERROR(ReadGradients(model, *from, values.gradient.floats(), mark.get()));
    if (exact) return std::move(values);
    values.momentum = Sized(std::move(values.momentum), bytes);
    SHOAL_RETURN_IF_ERROR(
        ReadParameters(model, StateVector::kFirstMoment, *from, values.momentum.floats()));
    return std::move(values);
  };
  scope_.Run(member_->compute, "momentum.read", std::move(read),
             [this, bucket, work = work_](Result<MomentumValues> values) {
               if (work != work_) return;
               if (!values.ok()) return Finish(values.status());
               if (!exact_) return Fold(bucket, std::move(*values));
               bucket->memory.momentum = std::move(values->momentum);
               HaveOwn(bucket, std::move(values->gradient));
             });
}

void MomentumStep::Fold(Bucket* bucket, MomentumValues values) {
  optimizer::AdamWOptions options = OptimizerOptionsOf(*member_, step_);
  options.gradient_factor = assumed_ * bucket->layout.part->copies;
  auto fold = [step = optimizer::MakeAdamWStep(options), values = std::move(values)]() mutable {
    optimizer::FoldMomentum(step, values.gradient.floats(), values.momentum.floats());
    return std::move(values);
  };
  scope_.Run(member_->codec, "momentum.fold", std::move(fold),
             [this, bucket, work = work_](MomentumValues folded) {
               if (work != work_) return;
               bucket->memory.gradient = std::move(folded.gradient);
               HaveOwn(bucket, std::move(folded.momentum));
             });
}

void MomentumStep::HaveOwn(Bucket* bucket, Buffer values) {
  bucket->own = std::make_shared<Buffer>(std::move(values));
  bucket->queue->Ready(bucket->number);
}

void MomentumStep::Exchange(Bucket* bucket) {
  member_->progress();
  const ParameterGroup& part = *bucket->layout.part;
  collective::ExchangeRequest request;
  request.round = step_ * kRoundsPerStep + 1 + attempt_;
  request.weights = GroupWeights(part, pipelines_);
  request.combine = exact_ ? collective::Combine::kSum : collective::Combine::kWeightedMean;
  request.shares = SharesOfGroup(*member_, part, request.weights);
  CountRaw(part, request.weights, part.values, &member_->stats.replica, request.shares);
  request.values = bucket->own;
  request.alike = !part.shared();  // stages have the same tensor's gradients in other sizes
  ExchangeOf(*bucket)->Start(
      std::move(request), [this, bucket, work = work_](Result<Buffer> result) {
        if (work != work_) return;
        if (!result.ok()) return Finish(result.status());
        member_->progress();
        Buffer& kept = exact_ ? bucket->memory.gradient : bucket->memory.momentum;
        kept = std::move(*std::exchange(bucket->own, nullptr));
        bucket->result = std::move(*result);
        bucket->queue->Ended(bucket->number, ExchangeOf(*bucket)->traffic().sent_bytes);
        if (done_) Use(bucket);
      });
}

// ---- behind Reduce ----

void MomentumStep::Use(Bucket* bucket) { exact_ ? UseSum(bucket) : UseMomentum(bucket); }

void MomentumStep::UseSum(Bucket* bucket) {
  bucket->written = true;
  auto write =
      [model = member_->model, to = bucket->layout.part,
       sum = std::move(*std::exchange(bucket->result, std::nullopt))]() mutable -> Result<Buffer> {
    SHOAL_RETURN_IF_ERROR(
        WriteParameters(model, StateVector::kGradients, *to, std::as_const(sum).floats()));
    return std::move(sum);
  };
  scope_.Run(member_->compute, "gradients.write", std::move(write),
             [this, bucket, work = work_](Result<Buffer> written) {
               if (work != work_) return;
               if (!written.ok()) return Finish(written.status());
               bucket->exact->Recycle(std::move(*written));
               FinishLane();
             });
}

// A member that only follows may lack the momentum of before. It may even get that from the others
// until Apply. So it scales there, and its norm, which nobody goes by, is of the mean as it is.
void MomentumStep::UseMomentum(Bucket* bucket) {
  Buffer mean = std::move(*std::exchange(bucket->result, std::nullopt));
  if (blend_ == 1 || follows()) return Scale(bucket, {}, std::move(mean));
  auto read = [model = member_->model, from = bucket->layout.part,
               before = std::move(bucket->memory.gradient)]() mutable -> Result<Buffer> {
    before = Sized(std::move(before), from->values * sizeof(float));
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kFirstMoment, *from, before.floats()));
    return std::move(before);
  };
  auto shared = std::make_shared<Buffer>(std::move(mean));
  scope_.Run(member_->compute, "momentum.before", std::move(read),
             [this, bucket, shared, work = work_](Result<Buffer> before) {
               if (work != work_) return;
               if (!before.ok()) return Finish(before.status());
               Scale(bucket, std::move(*before), std::move(*shared));
             });
}

// `before`: the momentum that all had; none where the assumed factor was the true one.
void MomentumStep::Scale(Bucket* bucket, Buffer before, Buffer mean) {
  struct Agreed {
    Buffer momentum, before;
    double squared_norm = 0;
  };
  // What stages share counts on the first of them, as its gradient does.
  const bool counts = !bucket->layout.part->shared() || member_->first_stage();
  auto scale = [counts, blend = static_cast<float>(blend_), before = std::move(before),
                step = optimizer::MakeAdamWStep(OptimizerOptionsOf(*member_, step_)),
                mean = std::move(mean)]() mutable {
    if (!before.empty()) optimizer::ScaleFold(step, blend, before.floats(), mean.floats());
    const double squares = counts ? optimizer::SumOfSquares(mean.floats()) : 0.0;
    return Agreed{std::move(mean), std::move(before), squares};
  };
  scope_.Run(member_->codec, "momentum.scale", std::move(scale),
             [this, bucket, work = work_](Agreed agreed) {
               if (work != work_) return;
               bucket->agreed = std::make_shared<Buffer>(std::move(agreed.momentum));
               if (!agreed.before.empty()) bucket->memory.gradient = std::move(agreed.before);
               bucket->squared_norm = agreed.squared_norm;
               FinishLane();
             });
}

// The norm is in the unit of a gradient sum, and what clipping leaves.
void MomentumStep::FinishLane() {
  if (--buckets_left_ > 0 || !done_) return;
  if (exact_) {
    auto norm = [model = member_->model, clip = clip_] {
      return model->SquaredGradientNorm(1.0) * clip * clip;
    };
    return scope_.Run(member_->compute, "gradients.norm", std::move(norm),
                      [this, work = work_](double squared) {
                        if (work == work_) Finish(squared);
                      });
  }
  double squared = 0;  // in the order of the buckets, whichever came first
  for (const Bucket& bucket : buckets_) squared += bucket.squared_norm;
  const auto labels = static_cast<double>(order_.labels);
  Finish(squared * labels * labels);
}

void MomentumStep::Finish(Result<double> norm) {
  // Only the first of several errors counts.
  if (done_) return std::exchange(done_, nullptr)(std::move(norm));
  if (!norm.ok() && early_error_.ok()) early_error_ = norm.status();
}

Status MomentumStep::Reopen() {
  SHOAL_ASSERT_ON(*member_->control);
  ++work_;
  done_ = nullptr;
  early_error_ = Status::Ok();
  if (std::exchange(believed_, false)) factors_.pop_back();
  for (Bucket& bucket : buckets_) {
    if (bucket.written) {
      RestoreGradients(member_, &scope_, bucket.layout.part,
                       std::make_shared<Buffer>(std::move(bucket.memory.gradient)),
                       compression::HostValues());
    }
    Drop(&bucket);
  }
  for (const auto& queue : queues_) queue->Restart();
  began_ = false;
  return Status::Ok();
}

// What its exchange came to counts for nothing.
void MomentumStep::Drop(Bucket* bucket) {
  ExchangeOf(*bucket)->Rollback();
  bucket->begun = bucket->written = false;
  bucket->own = nullptr;
  bucket->result.reset();
  if (bucket->agreed == nullptr) return;
  bucket->compressed->Recycle(std::move(*std::exchange(bucket->agreed, nullptr)));
}

// ---- Apply ----

void MomentumStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  applied_ = std::move(done);
  tasks_left_ = 1;
  for (const auto& queue : queues_) queue->Restart();
  began_ = believed_ = false;
  if (order.skip) return Skip();
  if (factors_.size() > kFactorsKept) factors_.pop_front();
  for (Bucket& bucket : buckets_) {
    bucket.begun = bucket.written = false;
    if (exact_ || blend_ == 1) {
      ExchangeOf(bucket)->Commit();
      continue;
    }
    ++tasks_left_;
    bucket.compressed->CommitPart(blend_, [this](const Status& status) { FinishApply(status); });
  }
  if (!exact_ || order.step >= schedule_.start) return ApplyLanes(order);
  auto apply = [model = member_->model, order, factor = clip_ / static_cast<double>(order.labels)] {
    return model->Apply(order.step, factor, 0, order.learning_rate);  // clipped by the factor
  };
  scope_.Run(member_->compute, "model.apply", std::move(apply),
             [this](const Status& status) { FinishApply(status); });
}

// The step's factor, in which the lost gradient has no part, is none to go by either.
void MomentumStep::Skip() {
  for (Bucket& bucket : buckets_) Drop(&bucket);
  factors_.pop_back();
  auto zero = [model = member_->model] {
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(member_->compute, "gradients.zero", std::move(zero),
             [this](const Status& status) { FinishApply(status); });
}

void MomentumStep::ApplyLanes(const ApplyOrder& order) {
  struct Task {
    std::shared_ptr<const ParameterGroup> part;
    std::shared_ptr<Buffer> agreed;
    MomentumValues memory;
  };
  auto tasks = std::make_shared<std::vector<Task>>();
  for (Bucket& bucket : buckets_) {
    tasks->push_back({bucket.layout.part, std::exchange(bucket.agreed, nullptr),
                      std::exchange(bucket.memory, {})});
  }
  optimizer::AdamWOptions options = OptimizerOptionsOf(*member_, order.step);
  options.learning_rate = order.learning_rate;
  options.gradient_factor = clip_ / static_cast<double>(order.labels);
  auto apply = [model = member_->model, codec = member_->codec, tasks, options,
                own = follows() ? blend_ : 1,
                fold = optimizer::MakeAdamWStep(OptimizerOptionsOf(*member_, order.step)),
                updates = optimizer::VarianceUpdates(schedule_, order.step)] {
    for (Task& task : *tasks) {
      if (own != 1 && task.agreed != nullptr) {
        SHOAL_RETURN_IF_ERROR(ScaleWithOwn(model, *task.part, fold, own, task.agreed.get()));
      }
      SHOAL_RETURN_IF_ERROR(ApplyMomentum(model, codec, *task.part, task.agreed.get(), options,
                                          updates, &task.memory));
    }
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(member_->compute, "momentum.apply", std::move(apply),
             [this, tasks](const Status& status) {
               for (std::size_t i = 0; i < buckets_.size(); ++i) {
                 Task& task = (*tasks)[i];
                 buckets_[i].memory = std::move(task.memory);
                 if (task.agreed != nullptr)
                   buckets_[i].compressed->Recycle(std::move(*task.agreed));
               }
               FinishApply(status);
             });
}

void MomentumStep::FinishApply(const Status& status) {
  if (!applied_) return;
  if (!status.ok() || --tasks_left_ == 0) std::exchange(applied_, nullptr)(status);
}

std::string MomentumStep::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  if (links_ == nullptr) return {};
  for (const Bucket& bucket : buckets_) {
    std::string text =
        AwaitedText(*links_, *bucket.group, ExchangeOf(bucket)->Awaited(), "momentum", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewMomentumStep(ReplicaContext context) {
  return MakeReplicaStep<MomentumStep>(context);
}

}  // namespace shoal::replica
