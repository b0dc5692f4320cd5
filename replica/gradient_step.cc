// The methods that agree on gradients: `average`, `powersgd`. The model's optimizer makes the step.
//
// A bucket's exchange begins when the last micro-batch's backward has finished the bucket. It
// assumes that the pipelines count that have micro-batches, and that the same stages exchange
// exactly as in the step before, where the swarm chooses which do. Reduce confirms this. Otherwise
// the exchanges are rolled back, and a second round of the step repeats them from the kept
// gradients. A step that was dealt out again has rounds of its own, and exchanges with Reduce only.

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/task_scope.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/exchange.h"
#include "replica/gradient_buckets.h"
#include "replica/methods/group_limits.h"
#include "replica/replica_step.h"
#include "replica/state/error_keeper.h"

namespace shoal::replica {
namespace {

// A step's first round, and the one behind a wrong guess; each time that it is dealt out.
constexpr std::uint64_t kRoundsPerDeal = 2;
constexpr std::uint64_t kRoundsPerStep = kRoundsPerDeal * (kAmendmentsMax + 1);
constexpr char kGradients[] = "gradients";  // kept errors of sums

class GradientStep final : public ReplicaStep {
 public:
  explicit GradientStep(ReplicaContext context)
      : member_(context.member),
        links_(context.links),
        parts_(std::move(context.parts)),
        method_(context.method),
        final_after_(std::move(context.final_after)),
        scope_(member_->control) {}

  Status Init();
  void OnFinalGradients(std::uint64_t step, std::size_t parts) override;
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  Status Reopen() override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  void KeepErrors(ErrorKeeper* keeper) override;
  bool on_host() const override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  struct Bucket {
    GradientBucket layout;
    collective::GroupChannel* group = nullptr;
    BucketQueue* queue = nullptr;  // of its part
    std::size_t number = 0;        // there
    std::unique_ptr<collective::Exchange> exchange;
    bool begun = false;
    std::shared_ptr<Buffer> own;  // what this peer adds to the sum
    Buffer spare;                 // for `own`: new pages cost more than what is done in them
    std::optional<Buffer> sum;    // not yet in the model
    bool written = false;         // it is there, in the place of `own`
  };

  Status AddBuckets(const std::shared_ptr<const ParameterGroup>& part);
  void BeginStep(std::uint64_t step);
  bool Guessed(const ReduceOrder& order) const;
  std::uint64_t FirstRound() const { return kRoundsPerDeal * member_->amendment; }
  bool exact() const;  // the running exchanges of the stage's own part, whatever the method
  // Where what the bucket exchanges lies: the exchange may be on the host where the model is not.
  std::shared_ptr<const compression::ValueHome> HomeOf(const Bucket& bucket) const {
    return bucket.exchange->home().on_host() ? compression::HostValues() : member_->home;
  }
  void Read(Bucket* bucket);
  void Exchange(Bucket* bucket);
  void OnSum(Bucket* bucket, Result<Buffer> sum);
  void Write(Bucket* bucket);
  void Finish(Result<double> norm);
  void ReadNorm();

  Member* const member_;
  const GroupLinks* const links_;
  const ParameterGroups parts_;
  const ReplicaMethod method_;
  const FinalParts final_after_;
  std::vector<std::unique_ptr<collective::ChannelMux>> muxes_;  // of parts with several buckets
  std::vector<std::unique_ptr<BucketQueue>> queues_;            // by part
  std::vector<Bucket> buckets_;                                 // do not move
  std::uint64_t step_ = 0;                                      // running
  std::uint64_t attempt_ = 0;                                   // of its rounds
  std::uint64_t opened_ = 0;  // how often a step was opened: older work counts for nothing
  bool began_ = false;        // it
  std::vector<std::uint32_t> pipelines_;  // that count in it, as far as is known
  Status early_error_;                    // came before Reduce
  ReduceOrder order_;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::size_t buckets_left_ = 0;
  std::vector<std::uint32_t> exact_stages_;           // by Reduce, or the one before
  std::size_t own_buckets_ = 0;                       // of the stage's own part
  std::uint64_t own_values_ = 0, factor_values_ = 0;  // of it, and of its factors
  std::size_t own_left_ = 0;                          // that did not end yet
  TimePoint final_{};                                 // when the own part's gradients were complete
  ExactExchange measured_;                            // of the running step
  TaskScope scope_;                                   // last: its tasks use what is above
};

Status GradientStep::Init() {
  SHOAL_ASSERT_ON(*member_->control);
  if (method_.StageChoiceStart().has_value() && member_->config.pipelines > 1) {
    exact_stages_.resize(member_->config.stages);  // so a generation begins
    std::iota(exact_stages_.begin(), exact_stages_.end(), 0U);
  }
  buckets_.reserve(parts_.size() * (kBucketsMax + 1));
  for (const auto& part : parts_) SHOAL_RETURN_IF_ERROR(AddBuckets(part));
  own_left_ = own_buckets_;
  return Status::Ok();
}

Status GradientStep::AddBuckets(const std::shared_ptr<const ParameterGroup>& part) {
  std::vector<GradientBucket> buckets =
      CutBuckets(part, final_after_, member_->config.bucket_values_min);
  collective::ChannelMux* mux = nullptr;
  if (buckets.size() > 1) {
    muxes_.push_back(std::make_unique<collective::ChannelMux>(
        part->channel, buckets.size(),
        [this](const Status& status) { member_->fail(status, nullptr); }));
    mux = muxes_.back().get();
  }
  queues_.push_back(std::make_unique<BucketQueue>(
      [this, first = buckets_.size()](std::size_t i) { Exchange(&buckets_[first + i]); }));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Bucket bucket;
    bucket.layout = std::move(buckets[i]);
    bucket.group = part->channel;
    bucket.queue = queues_.back().get();
    bucket.number = bucket.queue->Add(bucket.layout.part->values);
    GroupExchangeOptions options;
    options.channel = mux != nullptr ? mux->channel(i) : part->channel;
    // Not the model's, which is at work on the other buckets.
    options.compute = member_->codec;
    options.number = i;
    options.rounds_per_step = kRoundsPerStep;
    options.reuse_memory = true;
    options.home = member_->home;
    SHOAL_ASSIGN_OR_RETURN(bucket.exchange,
                           NewGroupExchange(*member_, method_, *bucket.layout.part, options));
    if (member_->errors != nullptr) {
      bucket.exchange->Adopt(
          member_->errors->Take(VectorName(kGradients, *bucket.layout.part)).errors);
    }
    if (!part->shared()) {
      ++own_buckets_;
      own_values_ += bucket.layout.part->values;
      factor_values_ += bucket.exchange->FactorValues();
    }
    buckets_.push_back(std::move(bucket));
  }
  return Status::Ok();
}

void GradientStep::BeginStep(std::uint64_t step) {
  step_ = step;
  if (std::exchange(began_, true)) return;
  attempt_ = FirstRound();
  pipelines_ = PlannedPipelines(*member_);
}

void GradientStep::OnFinalGradients(std::uint64_t step, std::size_t parts) {
  SHOAL_ASSERT_ON(*member_->control);
  if (member_->amendment > 0) return;
  BeginStep(step);
  for (Bucket& bucket : buckets_) {
    if (!bucket.begun && bucket.layout.final_after <= parts) Read(&bucket);
  }
}

bool GradientStep::Guessed(const ReduceOrder& order) const {
  // All stages compare the whole list: those that share tensors are in the same round.
  return order.pipelines == pipelines_ && order.exact_stages == exact_stages_;
}

bool GradientStep::exact() const {
  return std::find(exact_stages_.begin(), exact_stages_.end(), member_->config.stage) !=
         exact_stages_.end();
}

void GradientStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  BeginStep(order.step);
  buckets_left_ = buckets_.size();
  if (member_->amendment > 0) pipelines_ = order.pipelines;  // no exchange has begun
  const bool guessed = Guessed(order) || member_->amendment > 0;
  exact_stages_ = order.exact_stages;
  if (!early_error_.ok()) {
    return scope_.Post("gradients.failed", [this, error = early_error_, opened = opened_] {
      if (opened == opened_) Finish(error);
    });
  }
  if (buckets_.empty()) return ReadNorm();
  if (!guessed) {
    pipelines_ = order.pipelines;
    ++attempt_;
    measured_ = {};
    for (const auto& queue : queues_) queue->Restart();
  }
  for (Bucket& bucket : buckets_) {
    if (!bucket.begun) {
      Read(&bucket);
    } else if (attempt_ > FirstRound()) {
      bucket.exchange->Rollback();
      bucket.sum.reset();
      if (bucket.own != nullptr) bucket.queue->Ready(bucket.number);
    } else if (bucket.sum) {
      Write(&bucket);
    }
  }
}

void GradientStep::Read(Bucket* bucket) {
  bucket->begun = true;
  if (!bucket->layout.part->shared()) final_ = member_->control->clock().Now();
  auto read = [model = member_->model, part = bucket->layout.part, mark = member_->mark,
               home = HomeOf(*bucket),
               values = std::move(bucket->spare)]() mutable -> Result<Buffer> {
    if (values.size() != part->values * sizeof(float)) {
      SHOAL_ASSIGN_OR_RETURN(values, home->Allocate(part->values));
    }
    SHOAL_RETURN_IF_ERROR(
        ReadGradients(model, *part, values.floats(), mark.get(), kGradientMost, *home));
    return std::move(values);
  };
  scope_.Run(member_->compute, "gradients.read", std::move(read),
             [this, bucket, opened = opened_](Result<Buffer> values) {
               if (opened != opened_) return;
               if (!values.ok()) return Finish(values.status());
               bucket->own = std::make_shared<Buffer>(std::move(*values));
               bucket->queue->Ready(bucket->number);
             });
}

void GradientStep::Exchange(Bucket* bucket) {
  member_->progress();
  const ParameterGroup& part = *bucket->layout.part;
  collective::ExchangeRequest request;
  request.round = step_ * kRoundsPerStep + 1 + attempt_;
  // Gradients are sums over labels already: a pipeline that counts has weight 1.
  request.weights = GroupWeights(part, pipelines_);
  request.shares = SharesOfGroup(*member_, part, request.weights);
  CountRaw(part, request.weights, part.values, &member_->stats.replica, request.shares);
  request.values = bucket->own;
  request.alike = !part.shared();  // stages have the same tensor's gradients in other sizes
  request.exact = exact();
  bucket->exchange->Start(std::move(request),
                          [this, bucket, attempt = attempt_, opened = opened_](Result<Buffer> sum) {
                            if (attempt == attempt_ && opened == opened_)
                              OnSum(bucket, std::move(sum));
                          });
}

void GradientStep::OnSum(Bucket* bucket, Result<Buffer> sum) {
  SHOAL_ASSERT_ON(*member_->control);
  if (!sum.ok()) return Finish(sum.status());
  member_->progress();
  // A second round is no measure of a first one.
  if (exact() && attempt_ == 0 && !bucket->layout.part->shared() && --own_left_ == 0) {
    const Duration took = member_->control->clock().Now() - final_;
    measured_ = {std::chrono::duration<double, std::milli>(took).count(), own_values_,
                 factor_values_};
  }
  bucket->sum = std::move(*sum);
  bucket->queue->Ended(bucket->number, bucket->exchange->traffic().sent_bytes);
  if (done_) Write(bucket);
}

void GradientStep::Write(Bucket* bucket) {
  bucket->written = true;
  auto write =
      [model = member_->model, to = bucket->layout.part, home = HomeOf(*bucket),
       sum = std::move(*std::exchange(bucket->sum, std::nullopt))]() mutable -> Result<Buffer> {
    SHOAL_RETURN_IF_ERROR(WriteGradients(model, *to, std::as_const(sum).floats(), *home));
    return std::move(sum);
  };
  scope_.Run(member_->compute, "gradients.write", std::move(write),
             [this, bucket, opened = opened_](Result<Buffer> written) {
               if (opened != opened_) return;
               if (!written.ok()) return Finish(written.status());
               bucket->exchange->Recycle(std::move(*written));
               if (--buckets_left_ == 0) ReadNorm();
             });
}

void GradientStep::ReadNorm() {
  auto norm = [model = member_->model] { return model->SquaredGradientNorm(1.0); };
  scope_.Run(member_->compute, "gradients.norm", std::move(norm),
             [this, opened = opened_](double squared) {
               if (opened == opened_) Finish(squared);
             });
}

Status GradientStep::Reopen() {
  SHOAL_ASSERT_ON(*member_->control);
  ++opened_;
  done_ = nullptr;
  early_error_ = Status::Ok();
  attempt_ = FirstRound();
  for (Bucket& bucket : buckets_) {
    if (bucket.begun) bucket.exchange->Rollback();
    if (std::exchange(bucket.written, false)) {
      RestoreGradients(member_, &scope_, bucket.layout.part, bucket.own, HomeOf(bucket));
    }
    bucket.begun = false;
    bucket.own = nullptr;
    bucket.sum.reset();
  }
  for (const auto& queue : queues_) queue->Restart();
  own_left_ = own_buckets_;
  measured_ = {};
  began_ = false;
  return Status::Ok();
}

void GradientStep::Finish(Result<double> norm) {
  // Only the first of several errors counts.
  if (done_) {
    member_->stats.exchange = measured_;
    return std::exchange(done_, nullptr)(std::move(norm));
  }
  if (!norm.ok() && early_error_.ok()) early_error_ = norm.status();
}

void GradientStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  for (Bucket& bucket : buckets_) {
    order.skip ? bucket.exchange->Rollback() : bucket.exchange->Commit();
    bucket.begun = bucket.written = false;
    // Work of a round that was rolled back may still read it.
    if (bucket.own != nullptr && attempt_ == 0) bucket.spare = std::move(*bucket.own);
    bucket.own = nullptr;
  }
  for (const auto& queue : queues_) queue->Restart();
  attempt_ = 0;
  own_left_ = own_buckets_;
  measured_ = {};
  began_ = false;
  auto apply = [model = member_->model, order] {
    if (order.skip) {
      model->ZeroGradients();
      return Status::Ok();
    }
    return model->Apply(order.step, 1.0 / static_cast<double>(order.labels), order.global_norm,
                        order.learning_rate);
  };
  scope_.Run(member_->compute, "model.apply", std::move(apply), std::move(done));
}

void GradientStep::KeepErrors(ErrorKeeper* keeper) {
  SHOAL_ASSERT_ON(*member_->control);
  for (Bucket& bucket : buckets_) {
    keeper->Keep(VectorName(kGradients, *bucket.layout.part), {bucket.exchange->TakeErrors()});
  }
}

bool GradientStep::on_host() const {
  SHOAL_ASSERT_ON(*member_->control);
  return std::ranges::any_of(
      buckets_, [](const Bucket& bucket) { return bucket.exchange->home().on_host(); });
}

std::string GradientStep::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  for (const Bucket& bucket : buckets_) {
    std::string text =
        AwaitedText(*links_, *bucket.group, bucket.exchange->Awaited(), "gradients", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewGradientStep(ReplicaContext context) {
  auto step = std::make_unique<GradientStep>(std::move(context));
  SHOAL_RETURN_IF_ERROR(step->Init());
  return std::unique_ptr<ReplicaStep>(std::move(step));
}

}  // namespace shoal::replica
