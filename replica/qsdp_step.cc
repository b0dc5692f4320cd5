// The method with sharded optimizer state, `qsdp` (Markov, Vladu, Guo and Alistarh, ICML 2023).
// Every member owns a shard of the stage's values: their fp32 weights and moments. Gradients travel
// to the owners, quantised without bias. An owner makes AdamW's step of their sum, and its new
// weights travel to all, quantised with a random shift. Everybody, the owner too, goes on with what
// these bytes decode to. Tensors that are few or sensitive (norms, biases) travel in fp32, by
// exchanges of their own.
//
// Gradients travel bucket by bucket, as soon as the last micro-batch's backward is through with
// them, as if all pipelines counted in the step. If Reduce does not confirm that, the exchanges are
// rolled back and begin again from the gradients that were kept. Owners tell the norms of their
// sums. Apply brings the norm of the whole gradient, by which owners clip; only then do they make
// their step and send weights. So a step that is aborted before Apply has changed nothing.
//
// Shards are cut when a generation begins, from what the model was loaded with. A step that is
// saved sends exact weights. Its Apply gives all moments to the model, slice by slice; the model
// need not hold them (model::ZeroMode). So a checkpoint has all of the state, and any number of
// members goes on from it.

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <utility>

#include "common/task_scope.h"
#include "compression/codecs/learned_levels.h"
#include "replica/learned_codecs.h"
#include "replica/methods/qsdp_method.h"
#include "replica/qsdp_group.h"
#include "replica/qsdp_state.h"
#include "replica/replica_step.h"

namespace shoal::replica {
namespace {

using compression::LevelHistogram;
using model::StateVector;

// Vectors of a bucket that keep their errors apart.
enum Tensor : std::uint32_t { kOfGradients, kOfWeights };

class QsdpStep final : public ReplicaStep {
 public:
  explicit QsdpStep(const ReplicaContext& context)
      : member_(context.member),
        links_(context.links),
        options_(QsdpOptionsOf(context.method)),
        learn_steps_(options_, context.member->config.steps),
        scope_(member_->control) {}

  Status Init(const ReplicaContext& context);
  void OnFinalGradients(std::uint64_t step, std::size_t parts) override;
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::uint64_t StateBytes() const override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  void Load();
  void BeginStep(std::uint64_t step);
  void Read(QsdpGroup* group, QsdpBucket* bucket);
  void StartAgain(QsdpGroup* group);
  void Scatter(QsdpGroup* group, QsdpBucket* bucket);
  void MaybeExchangeNorms(QsdpGroup* group);
  void ExchangeNorms(QsdpGroup* group, double squared_norm);
  OwnerRule RuleOf(const ApplyOrder& order) const;
  void Gather(QsdpGroup* group, QsdpBucket* bucket);
  void Adopt(QsdpGroup* group, QsdpBucket* bucket, Buffer weights);
  void ExchangeCounts(QsdpGroup* group);
  void FinishGroup();
  void FinishStep();
  void GatherMoments();
  void FinishApply() { std::exchange(applied_, nullptr)(Status::Ok()); }
  // False if the step has failed.
  bool Enter(QsdpEvent event);
  void Fail(const Status& status);
  void Start(collective::Exchange* exchange, collective::ExchangeRequest request,
             std::function<void(Buffer)> then);

  Member* const member_;
  const GroupLinks* const links_;
  const QsdpOptions options_;
  LearnSteps learn_steps_;
  std::deque<QsdpGroup> groups_;
  QsdpState state_ = QsdpState::kAccumulating;
  Status error_;            // by which it failed
  std::uint64_t step_ = 0;  // running
  bool learns_ = false;     // at its end
  bool takes_part_ = true;  // this pipeline in it; until Reduce says otherwise
  bool again_ = false;      // it is in its second round
  ReduceOrder order_;
  OwnerRule rule_;  // without what buckets differ in
  std::size_t groups_left_ = 0;
  std::function<void(Result<double>)> done_;  // of Reduce
  std::function<void(Status)> applied_;       // of Apply
  TaskScope scope_;                           // last: its tasks use what is above
};

Status QsdpStep::Init(const ReplicaContext& context) {
  SHOAL_ASSERT_ON(*member_->control);
  for (const auto& part : context.parts) {
    QsdpGroup* const group = &groups_.emplace_back(options_);
    SHOAL_RETURN_IF_ERROR(
        group->Open(context, part,
                    {.reduce_scatter = [this, group](QsdpBucket* b) { Scatter(group, b); },
                     .all_gather = [this, group](QsdpBucket* b) { Gather(group, b); }}));
  }
  Load();
  return Status::Ok();
}

// Before any gradient is read, and so before any shard is used.
void QsdpStep::Load() {
  std::vector<std::shared_ptr<OwnedShard>> shards;
  for (const QsdpGroup& group : groups_) {
    for (const QsdpBucket& bucket : group.buckets) shards.push_back(bucket.shard);
  }
  auto load = [model = member_->model, shards = std::move(shards)] {
    for (const auto& shard : shards) SHOAL_RETURN_IF_ERROR(shard->Load(model));
    return Status::Ok();
  };
  scope_.Run(member_->compute, "shards.load", std::move(load), [this](const Status& status) {
    if (!status.ok()) member_->fail(status.WithContext("the stage's shards"), nullptr);
  });
}

bool QsdpStep::Enter(QsdpEvent event) {
  const std::optional<QsdpState> next = NextState(state_, event);
  SHOAL_CHECK(next.has_value());
  state_ = *next;
  return state_ != QsdpState::kFailed;
}

void QsdpStep::Start(collective::Exchange* exchange, collective::ExchangeRequest request,
                     std::function<void(Buffer)> then) {
  member_->progress();
  exchange->Start(std::move(request), [this, then = std::move(then)](Result<Buffer> agreed) {
    if (!agreed.ok()) return Fail(agreed.status());
    member_->progress();
    then(std::move(*agreed));
  });
}

// ---- gradients to the owners ----

void QsdpStep::BeginStep(std::uint64_t step) {
  step_ = step;
  learns_ = learn_steps_.At(step);
}

void QsdpStep::OnFinalGradients(std::uint64_t step, std::size_t parts) {
  SHOAL_ASSERT_ON(*member_->control);
  BeginStep(step);
  for (QsdpGroup& group : groups_) {
    for (QsdpBucket& bucket : group.buckets) {
      if (!bucket.begun && bucket.final_after <= parts) Read(&group, &bucket);
    }
  }
}

void QsdpStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  if (!Enter(QsdpEvent::kReduce)) {
    return scope_.Post("gradients.failed", [this, done = std::move(done)] { done(error_); });
  }
  BeginStep(order.step);
  order_ = order;
  done_ = std::move(done);
  const std::vector<std::uint32_t>& counted = order_.pipelines;
  takes_part_ =
      std::find(counted.begin(), counted.end(), member_->config.pipeline) != counted.end();
  again_ = counted.size() != member_->config.pipelines;  // each is named once
  groups_left_ = groups_.size();
  for (QsdpGroup& group : groups_) {
    CountRaw(*group.part, std::vector<std::uint64_t>(group.part->channel->size(), 1),
             group.part->values, &member_->stats.replica);
    if (again_) StartAgain(&group);
    for (QsdpBucket& bucket : group.buckets) {
      if (!bucket.begun) Read(&group, &bucket);
    }
    MaybeExchangeNorms(&group);
  }
}

void QsdpStep::Read(QsdpGroup* group, QsdpBucket* bucket) {
  bucket->begun = true;
  struct Read {
    Buffer gradient;
    LevelHistogram counts = {};
  };
  auto read = [model = member_->model, part = bucket->shard->part(),
               learns = learns_ && bucket->quantised, bucket = options_.bucket,
               spare = std::move(bucket->spare), mark = member_->mark]() mutable -> Result<Read> {
    Read result;
    result.gradient = Sized(std::move(spare), part->values * sizeof(float));
    const std::span<float> values = result.gradient.floats();
    SHOAL_RETURN_IF_ERROR(ReadGradients(model, *part, values, mark.get()));
    if (learns) result.counts = compression::HistogramOf(values, bucket);
    return result;
  };
  scope_.Run(member_->compute, "gradients.read", std::move(read),
             [this, group, bucket](Result<Read> result) {
               if (!result.ok()) return Fail(result.status());
               bucket->own = std::make_shared<Buffer>(std::move(result->gradient));
               bucket->counts = result->counts;
               group->reduce_scatters->Ready(group->NumberOf(*bucket));
             });
}

void QsdpStep::StartAgain(QsdpGroup* group) {
  for (QsdpBucket& bucket : group->buckets) {
    bucket.exchange->Rollback();
    bucket.sum = nullptr;
  }
  group->reduce_scatters->Restart();
  for (const QsdpBucket& bucket : group->buckets) {
    if (bucket.own != nullptr) group->reduce_scatters->Ready(group->NumberOf(bucket));
  }
}

void QsdpStep::Scatter(QsdpGroup* group, QsdpBucket* bucket) {
  member_->progress();
  collective::ExchangeRequest request =
      group->NewRequest(step_, again_ ? QsdpRound::kAgain : QsdpRound::kGradients);
  request.tensor = kOfGradients;
  request.op = collective::CollectiveOp::kReduceScatter;
  request.values = bucket->own;
  request.alike = !group->part->shared();  // stages have the same tensor's gradients in other sizes
  if (!takes_part_) {
    auto zeros = std::make_shared<Buffer>(bucket->own->size());
    std::ranges::fill(zeros->floats(), 0.0F);
    request.values = std::move(zeros);
  }
  if (bucket->quantised) request.codec = group->codecs.gradients();
  bucket->exchange->Start(std::move(request), [this, group, bucket,
                                               again = again_](Result<Buffer> sum) {
    if (again != again_) return;
    if (!sum.ok()) return Fail(sum.status());
    member_->progress();
    bucket->sum = std::make_shared<Buffer>(std::move(*sum));
    group->reduce_scatters->Ended(group->NumberOf(*bucket), bucket->exchange->traffic().sent_bytes);
    if (state_ == QsdpState::kReducing) MaybeExchangeNorms(group);
  });
}

// ---- the norm of their sum ----

void QsdpStep::MaybeExchangeNorms(QsdpGroup* group) {
  std::vector<std::shared_ptr<const Buffer>> sums;
  for (const QsdpBucket& bucket : group->buckets) {
    if (bucket.sum == nullptr) return;
    sums.push_back(bucket.sum);
  }
  for (QsdpBucket& bucket : group->buckets) {
    // Work of a round that was rolled back may still read it.
    if (!again_ && bucket.own != nullptr) bucket.spare = std::move(*bucket.own);
    bucket.own = nullptr;
  }
  auto square = [sums = std::move(sums)] {
    double squared = 0;
    for (const auto& sum : sums) squared += optimizer::SumOfSquares(sum->floats());
    return squared;
  };
  scope_.Run(member_->codec, "gradients.norm", std::move(square),
             [this, group](double squared) { ExchangeNorms(group, squared); });
}

// Every member knows the norm of its shards only.
void QsdpStep::ExchangeNorms(QsdpGroup* group, double squared_norm) {
  if (!std::isfinite(squared_norm)) {
    return Fail(InvalidArgument(
        "the sum of the stage group's gradients is not finite; lower learning_rate in run.toml"));
  }
  collective::ExchangeRequest request = group->NewRequest(step_, QsdpRound::kNorms);
  request.op = collective::CollectiveOp::kAllGather;
  request.count = group->part->channel->size();  // one each
  request.transform = [norm = static_cast<float>(std::sqrt(squared_norm))](
                          std::size_t, std::span<float> values) {
    std::ranges::fill(values, norm);
    return Status::Ok();
  };
  Start(group->small.get(), std::move(request), [this, group](const Buffer& norms) {
    // What stages share counts on the first of them, as its gradient does.
    const bool counts = !group->part->shared() || member_->first_stage();
    group->squared_norm = counts ? optimizer::SumOfSquares(norms.floats()) : 0;
    if (--groups_left_ > 0 || !Enter(QsdpEvent::kNorms)) return;
    double squared = 0;
    for (const QsdpGroup& one : groups_) squared += one.squared_norm;
    std::exchange(done_, nullptr)(squared);
  });
}

// Only the first of several errors counts. One that comes before Reduce is Reduce's answer.
void QsdpStep::Fail(const Status& status) {
  if (state_ == QsdpState::kFailed) return;
  Enter(QsdpEvent::kFail);
  error_ = status;
  if (done_) return std::exchange(done_, nullptr)(status);
  if (applied_) std::exchange(applied_, nullptr)(status);
}

// ---- the owners' step, and weights to all ----

OwnerRule QsdpStep::RuleOf(const ApplyOrder& order) const {
  OwnerRule rule;
  rule.skip = order.skip;
  rule.options = OptimizerOptionsOf(*member_, order.step);
  rule.options.learning_rate = order.learning_rate;
  rule.options.gradient_factor =
      optimizer::ClipFactor(member_->model->options().optimizer.clip_norm, order.global_norm) /
      static_cast<double>(order.labels);
  rule.bucket = options_.bucket;
  return rule;
}

void QsdpStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  if (!Enter(QsdpEvent::kApply)) {
    return scope_.Post("gradients.failed", [this, done = std::move(done)] { done(error_); });
  }
  applied_ = std::move(done);
  member_->computing(std::nullopt);  // of which the owners' steps are a part
  rule_ = RuleOf(order);
  learns_ = learns_ && !order.skip;
  // A step that is saved sends exact weights and moments, whether it was made or not.
  const bool gathers = !order.skip || order_.checkpoint;
  groups_left_ = groups_.size();
  for (QsdpGroup& group : groups_) {
    group.small->Commit();
    group.reduce_scatters->Restart();
    group.all_gathers->Restart();
    group.buckets_left = group.buckets.size();
    for (QsdpBucket& bucket : group.buckets) {
      order.skip ? bucket.exchange->Rollback() : bucket.exchange->Commit();
      bucket.begun = false;
      if (gathers) group.all_gathers->Ready(group.NumberOf(bucket));
      if (!gathers) bucket.exchange->Recycle(std::move(*std::exchange(bucket.sum, nullptr)));
    }
  }
  auto zero = [model = member_->model] {
    model->ZeroGradients();
    return true;
  };
  scope_.Run(member_->compute, "gradients.zero", std::move(zero), [this, gathers](bool) {
    if (!gathers) FinishStep();
  });
}

// Owners make their step chunk by chunk, while the first chunks are on their way.
void QsdpStep::Gather(QsdpGroup* group, QsdpBucket* bucket) {
  OwnerRule rule = rule_;
  rule.change = bucket->quantised && options_.delta && !order_.checkpoint;
  rule.counts = bucket->quantised && learns_;
  collective::ExchangeRequest request = group->NewRequest(step_, QsdpRound::kWeights);
  request.tensor = kOfWeights;
  request.op = collective::CollectiveOp::kAllGather;
  request.count = bucket->shard->part()->values;
  request.transform = [shard = bucket->shard, rule, sum = bucket->sum](std::size_t first,
                                                                       std::span<float> values) {
    shard->Step(rule, std::as_const(*sum).floats(), first, values);
    return Status::Ok();
  };
  if (bucket->quantised) {
    request.codec = group->codecs.gradients();
    request.result_codec =
        order_.checkpoint ? compression::kLosslessCodec : group->codecs.weights();
  }
  Start(bucket->exchange.get(), std::move(request), [this, group, bucket](Buffer weights) {
    bucket->exchange->Commit();
    bucket->exchange->Recycle(std::move(*std::exchange(bucket->sum, nullptr)));
    group->all_gathers->Ended(group->NumberOf(*bucket), bucket->exchange->traffic().sent_bytes);
    Adopt(group, bucket, std::move(weights));
  });
}

void QsdpStep::Adopt(QsdpGroup* group, QsdpBucket* bucket, Buffer weights) {
  auto adopt = [model = member_->model, shard = bucket->shard,
                change = bucket->quantised && options_.delta && !order_.checkpoint,
                weights = std::move(weights)]() mutable -> Result<Buffer> {
    SHOAL_RETURN_IF_ERROR(shard->Adopt(model, change, weights.floats()));
    return std::move(weights);
  };
  scope_.Run(member_->compute, "weights.adopt", std::move(adopt),
             [this, group, bucket](Result<Buffer> adopted) {
               if (!adopted.ok()) return Fail(adopted.status());
               bucket->exchange->Recycle(std::move(*adopted));
               member_->progress();
               if (--group->buckets_left > 0) return;
               learns_ && group->quantises() ? ExchangeCounts(group) : FinishGroup();
             });
}

void QsdpStep::ExchangeCounts(QsdpGroup* group) {
  LevelHistogram gradients = {}, weights = {};
  for (QsdpBucket& bucket : group->buckets) {
    if (!bucket.quantised) continue;
    if (takes_part_) compression::AddCounts(bucket.counts, &gradients);
    compression::AddCounts(bucket.shard->TakeCounts(), &weights);
  }
  auto counts = std::make_shared<Buffer>(2 * sizeof(LevelHistogram));
  std::ranges::copy(gradients, counts->floats().begin());
  std::ranges::copy(weights, counts->floats().begin() + compression::kLevelBins);
  collective::ExchangeRequest request = group->NewRequest(step_, QsdpRound::kCounts);
  request.values = std::move(counts);
  Start(group->small.get(), std::move(request), [this, group](const Buffer& sums) {
    group->small->Commit();
    // From the next step on.
    if (Status status = group->codecs.Learn(sums.floats()); !status.ok()) return Fail(status);
    FinishGroup();
  });
}

void QsdpStep::FinishGroup() {
  if (--groups_left_ == 0) FinishStep();
}

void QsdpStep::FinishStep() {
  if (!Enter(order_.checkpoint ? QsdpEvent::kAdoptedToSave : QsdpEvent::kAdopted)) return;
  rule_.skip ? learn_steps_.Skipped(step_) : learn_steps_.Applied();
  takes_part_ = true;
  again_ = false;
  order_.checkpoint ? GatherMoments() : FinishApply();
}

void QsdpStep::GatherMoments() {
  groups_left_ = groups_.size();
  for (QsdpGroup& group : groups_) {
    std::vector<ShardedVector> vectors;
    for (const QsdpBucket& bucket : group.buckets) {
      const std::shared_ptr<optimizer::AdamWShard> shard(bucket.shard, bucket.shard->state());
      vectors.push_back({bucket.shard->part(), bucket.shard->shards(), shard});
    }
    group.moments->Start(std::move(vectors), [this](const Status& status) {
      if (!status.ok()) return Fail(status);
      if (--groups_left_ == 0 && Enter(QsdpEvent::kMoments)) FinishApply();
    });
  }
}

std::uint64_t QsdpStep::StateBytes() const {
  SHOAL_ASSERT_ON(*member_->control);
  std::uint64_t bytes = 0;
  for (const QsdpGroup& group : groups_) {
    for (const QsdpBucket& bucket : group.buckets) bytes += bucket.shard->bytes();
  }
  return bytes;
}

std::string QsdpStep::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  for (const QsdpGroup& group : groups_) {
    std::vector<std::size_t> members = group.small->Awaited();
    for (const QsdpBucket& bucket : group.buckets) {
      if (members.empty()) members = bucket.exchange->Awaited();
    }
    if (members.empty()) members = group.moments->Awaited();
    std::string text =
        AwaitedText(*links_, *group.part->channel, members, "gradients, weights or moments", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewQsdpStep(ReplicaContext context) {
  return MakeReplicaStep<QsdpStep>(context);
}

}  // namespace shoal::replica
