// The method with sharded optimizer state, `qsdp` (Markov, Vladu, Guo and Alistarh, ICML 2023):
// every member owns a shard of the stage's values: their fp32 weights and moments. Gradients travel
// to the owners, quantised without bias; an owner makes AdamW's step of their sum, and its new
// weights travel to all, quantised with a random shift. Everybody, the owner too, goes on with what
// these bytes decode to. Tensors that are few or sensitive (norms, biases) travel in fp32, by
// exchanges of their own.
//
// Bucket by bucket: gradients travel as soon as the last micro-batch's backward is through with
// them, as if all pipelines counted in the step. Reduce confirms that, or else what began is rolled
// back and begins again from the gradients that were kept for it. Owners tell the norms of their
// sums; Apply brings the norm of the whole gradient, by which they clip, and only then do they make
// their step and send weights. So a step that is aborted before Apply has changed nothing.
//
// Shards are cut when a generation begins, from what the model was loaded with. A step that is
// saved sends exact weights, and its Apply gives all moments to the model, slice by slice, which
// need not hold them (model::ZeroMode): so a checkpoint has all of the state and any number of
// members goes on from it.

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <utility>

#include "common/task_scope.h"
#include "compression/codecs/learned_levels.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/direct/hierarchical_exchange.h"
#include "replica/collective/exchange.h"
#include "replica/gradient_buckets.h"
#include "replica/group_lans.h"
#include "replica/learned_codecs.h"
#include "replica/methods/qsdp_method.h"
#include "replica/moment_gather.h"
#include "replica/owned_shard.h"
#include "replica/replica_step.h"

namespace shoal::replica {
namespace {

using compression::LevelHistogram;
using model::StateVector;

constexpr char kExactCodec[] = "raw:dtype=fp32";

// Channels of a part's group.
enum Channel : std::size_t { kSmall, kMoments, kFirstBucket };
// Rounds of a step: gradients and, behind a wrong guess, gradients again; weights; norms, counts.
enum Round : std::uint64_t { kGradients = 1, kAgain, kWeights, kNorms, kCounts, kRounds };
// Vectors of a bucket that keep their errors apart.
enum Tensor : std::uint32_t { kOfGradients, kOfWeights };

class QsdpStep final : public ReplicaStep {
 public:
  explicit QsdpStep(const ReplicaContext& context)
      : member_(context.member),
        links_(context.links),
        method_(context.method),
        options_(QsdpOptionsOf(context.method)),
        final_after_(context.final_after),
        learn_steps_(options_, context.member->config.steps),
        scope_(member_->control) {}

  Status Init(const ReplicaContext& context);
  void OnFinalGradients(std::uint64_t step, std::size_t parts) override;
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::uint64_t StateBytes() const override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  // The way of a bucket: gradients to the owners, weights back.
  struct Bucket {
    std::shared_ptr<OwnedShard> shard;
    bool quantised = false;
    std::size_t final_after = 0;
    std::unique_ptr<collective::Exchange> exchange;
    bool begun = false;           // of the running step
    std::shared_ptr<Buffer> own;  // gradients
    LevelHistogram counts = {};   // of them
    Buffer spare;                 // for them
    std::shared_ptr<Buffer> sum;  // of the own shard, until its step is made
  };
  struct Group {
    explicit Group(const QsdpOptions& options) : codecs(options) {}
    std::shared_ptr<const ParameterGroup> part;
    collective::LanGroups lans;  // by member
    std::unique_ptr<collective::ChannelMux> mux;
    std::unique_ptr<collective::Exchange> small;  // norms and counts
    std::unique_ptr<MomentGather> moments;
    std::vector<Bucket> buckets;  // in the order in which all begin with them
    std::unique_ptr<BucketQueue> reduce_scatters, all_gathers;  // of the buckets
    std::size_t buckets_left = 0;                               // of Apply
    LearnedCodecs codecs;
    double squared_norm = 0;

    std::size_t NumberOf(const Bucket& bucket) const {
      return static_cast<std::size_t>(&bucket - buckets.data());
    }
  };

  Status OpenGroup(Group* group);
  Status AddBucket(Group* group, const GradientBucket& layout, bool quantised);
  Result<std::unique_ptr<collective::Exchange>> NewExchange(
      const collective::ExchangeConfig& config, const collective::LanGroups& lans,
      collective::GroupChannel* channel) const;
  void Load();
  bool Learns(const Group& group) const;
  void BeginStep(std::uint64_t step);
  void Read(Group* group, Bucket* bucket);
  void StartAgain(Group* group);
  void Scatter(Group* group, Bucket* bucket);
  void MaybeExchangeNorms(Group* group);
  void ExchangeNorms(Group* group, double squared_norm);
  OwnerRule RuleOf(const ApplyOrder& order) const;
  void Gather(Group* group, Bucket* bucket);
  void Adopt(Group* group, Bucket* bucket, Buffer weights);
  void ExchangeCounts(Group* group);
  void FinishGroup();
  void GatherMoments();
  void FinishApply(const Status& status);
  void Fail(const Status& status);
  collective::ExchangeRequest NewRequest(const Group& group, Round round) const;
  void Start(collective::Exchange* exchange, collective::ExchangeRequest request,
             std::function<void(Buffer)> then);

  Member* const member_;
  const GroupLinks* const links_;
  const ReplicaMethod method_;
  const QsdpOptions options_;
  const FinalParts final_after_;
  LearnSteps learn_steps_;
  std::deque<Group> groups_;
  std::uint64_t step_ = 0;  // running
  bool learns_ = false;     // at its end
  bool takes_part_ = true;  // this pipeline in it; until Reduce says otherwise
  bool again_ = false;      // it is in its second round
  Status early_error_;      // came before Reduce
  ReduceOrder order_;
  OwnerRule rule_;  // without what buckets differ in
  std::size_t groups_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::function<void(Status)> applied_;       // null: no Apply is
  TaskScope scope_;                           // last: its tasks use what is above
};

Status QsdpStep::Init(const ReplicaContext& context) {
  for (const auto& part : context.parts) {
    Group& group = groups_.emplace_back(options_);
    group.part = part;
    SHOAL_ASSIGN_OR_RETURN(group.lans, LansOfGroup(member_->config, options_, *part));
    SHOAL_RETURN_IF_ERROR(OpenGroup(&group));
  }
  Load();
  return Status::Ok();
}

Status QsdpStep::OpenGroup(Group* group) {
  std::vector<std::pair<GradientBucket, bool>> buckets;
  for (const bool quantised : {true, false}) {
    const auto part = Select(*group->part, [&](const model::TensorLayout& tensor) {
      return (tensor.shape.size() >= 2 && tensor.size >= options_.raw_below) == quantised;
    });
    if (part->values == 0) continue;
    for (GradientBucket& bucket :
         CutBuckets(part, final_after_, member_->config.bucket_values_min)) {
      buckets.emplace_back(std::move(bucket), quantised);
    }
  }
  std::ranges::stable_sort(buckets, {}, [](const auto& one) { return one.first.final_after; });
  group->mux = std::make_unique<collective::ChannelMux>(
      group->part->channel, kFirstBucket + buckets.size(),
      [member = member_](const Status& status) {
        member->fail(status.WithContext("inside the stage group"), nullptr);
      });
  group->reduce_scatters = std::make_unique<BucketQueue>(
      [this, group](std::size_t i) { Scatter(group, &group->buckets[i]); });
  group->all_gathers = std::make_unique<BucketQueue>(
      [this, group](std::size_t i) { Gather(group, &group->buckets[i]); });
  for (const auto& [bucket, quantised] : buckets) {
    SHOAL_RETURN_IF_ERROR(AddBucket(group, bucket, quantised));
  }
  collective::ExchangeConfig small;
  small.row = 1;
  small.epoch = member_->config.generation;
  SHOAL_ASSIGN_OR_RETURN(group->small,
                         collective::NewDirectExchange(small, group->mux->channel(kSmall),
                                                       member_->control, member_->codec));
  collective::ExchangeConfig config;
  config.row = options_.bucket;
  config.epoch = member_->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * MomentGather::kSliceValues;
  SHOAL_ASSIGN_OR_RETURN(auto moments,
                         NewExchange(config, group->lans, group->mux->channel(kMoments)));
  group->moments =
      std::make_unique<MomentGather>(member_, std::move(moments), group->lans, config.row);
  return Status::Ok();
}

Status QsdpStep::AddBucket(Group* group, const GradientBucket& layout, bool quantised) {
  const ParameterGroup& part = *layout.part;
  const std::size_t number = group->buckets.size();
  collective::ExchangeConfig config;
  config.row = options_.bucket;
  config.seed =
      SeedOf(member_->config.seed, number + 1 + (part.embedding ? collective::kMuxChannelsMax : 0));
  config.epoch = member_->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * part.values;
  config.reuse_memory = true;
  if (quantised) {
    config.codec = method_.codec;
    config.result_codec = kExactCodec;  // the most that any round needs
    config.error_feedback = method_.feedback;
    config.result_feedback = false;
  }
  // Whoever does not count in a step owns its shard all the same.
  const std::vector<std::uint64_t> weights(part.channel->size(), 1);
  Bucket bucket;
  bucket.shard = std::make_shared<OwnedShard>(
      layout.part,
      collective::HierarchicalShards(part.values, group->lans, weights, {}, config.row),
      quantised && options_.delta);
  bucket.quantised = quantised;
  bucket.final_after = layout.final_after;
  SHOAL_ASSIGN_OR_RETURN(bucket.exchange, NewExchange(config, group->lans,
                                                      group->mux->channel(kFirstBucket + number)));
  group->reduce_scatters->Add(part.values);
  group->all_gathers->Add(part.values);
  group->buckets.push_back(std::move(bucket));
  return Status::Ok();
}

// Codes and sums run beside the model, which is at work on what is not final yet.
Result<std::unique_ptr<collective::Exchange>> QsdpStep::NewExchange(
    const collective::ExchangeConfig& config, const collective::LanGroups& lans,
    collective::GroupChannel* channel) const {
  Executor* const control = member_->control;
  if (lans.back() + 1 == lans.size()) {  // nobody shares one
    return collective::NewDirectExchange(config, channel, control, member_->codec);
  }
  return collective::NewHierarchicalExchange({config, lans}, channel, control, member_->codec);
}

// Before any gradient is read, and so before any shard is used.
void QsdpStep::Load() {
  std::vector<std::shared_ptr<OwnedShard>> shards;
  for (const Group& group : groups_) {
    for (const Bucket& bucket : group.buckets) shards.push_back(bucket.shard);
  }
  auto load = [model = member_->model, shards = std::move(shards)] {
    for (const auto& shard : shards) SHOAL_RETURN_IF_ERROR(shard->Load(model));
    return Status::Ok();
  };
  scope_.Run(member_->compute, "shards.load", std::move(load), [this](const Status& status) {
    if (!status.ok()) member_->fail(status.WithContext("the stage's shards"), nullptr);
  });
}

bool QsdpStep::Learns(const Group& group) const {
  return learns_ && std::any_of(group.buckets.begin(), group.buckets.end(),
                                [](const Bucket& bucket) { return bucket.quantised; });
}

collective::ExchangeRequest QsdpStep::NewRequest(const Group& group, Round round) const {
  collective::ExchangeRequest request;
  request.round = step_ * kRounds + round;
  request.weights.assign(group.part->channel->size(), 1);
  return request;
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
  BeginStep(step);
  for (Group& group : groups_) {
    for (Bucket& bucket : group.buckets) {
      if (!bucket.begun && bucket.final_after <= parts) Read(&group, &bucket);
    }
  }
}

void QsdpStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_CHECK(!done_);
  BeginStep(order.step);
  order_ = order;
  done_ = std::move(done);
  if (!early_error_.ok()) {
    return scope_.Post("gradients.failed", [this] { Fail(early_error_); });
  }
  const std::vector<std::uint32_t>& counted = order_.pipelines;
  takes_part_ =
      std::find(counted.begin(), counted.end(), member_->config.pipeline) != counted.end();
  again_ = counted.size() != member_->config.pipelines;  // each is named once
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    CountRaw(*group.part, std::vector<std::uint64_t>(group.part->channel->size(), 1),
             group.part->values, &member_->stats.replica);
    if (again_) StartAgain(&group);
    for (Bucket& bucket : group.buckets) {
      if (!bucket.begun) Read(&group, &bucket);
    }
    MaybeExchangeNorms(&group);
  }
}

void QsdpStep::Read(Group* group, Bucket* bucket) {
  bucket->begun = true;
  struct Read {
    Buffer gradient;
    LevelHistogram counts = {};
  };
  auto read = [model = member_->model, part = bucket->shard->part(),
               learns = learns_ && bucket->quantised, bucket = options_.bucket,
               spare = std::move(bucket->spare)]() mutable -> Result<Read> {
    Read result;
    result.gradient = Sized(std::move(spare), part->values * sizeof(float));
    const std::span<float> values = result.gradient.floats();
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kGradients, *part, values));
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

void QsdpStep::StartAgain(Group* group) {
  for (Bucket& bucket : group->buckets) {
    bucket.exchange->Rollback();
    bucket.sum = nullptr;
  }
  group->reduce_scatters->Restart();
  for (const Bucket& bucket : group->buckets) {
    if (bucket.own != nullptr) group->reduce_scatters->Ready(group->NumberOf(bucket));
  }
}

void QsdpStep::Scatter(Group* group, Bucket* bucket) {
  member_->progress();
  collective::ExchangeRequest request = NewRequest(*group, again_ ? kAgain : kGradients);
  request.tensor = kOfGradients;
  request.op = collective::CollectiveOp::kReduceScatter;
  request.values = bucket->own;
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
    if (done_) MaybeExchangeNorms(group);
  });
}

// ---- the norm of their sum ----

void QsdpStep::MaybeExchangeNorms(Group* group) {
  std::vector<std::shared_ptr<const Buffer>> sums;
  for (const Bucket& bucket : group->buckets) {
    if (bucket.sum == nullptr) return;
    sums.push_back(bucket.sum);
  }
  for (Bucket& bucket : group->buckets) {
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
void QsdpStep::ExchangeNorms(Group* group, double squared_norm) {
  if (!std::isfinite(squared_norm)) {
    return Fail(InvalidArgument(
        "the sum of the stage group's gradients is not finite; lower learning_rate in run.toml"));
  }
  collective::ExchangeRequest request = NewRequest(*group, kNorms);
  request.op = collective::CollectiveOp::kAllGather;
  request.count = group->part->channel->size();  // one each
  request.transform = [norm = static_cast<float>(std::sqrt(squared_norm))](
                          std::size_t, std::span<float> values) {
    std::ranges::fill(values, norm);
    return Status::Ok();
  };
  Start(group->small.get(), std::move(request), [this, group](const Buffer& norms) {
    // The embedding counts on one of its two stages, as its gradient does.
    const bool counts = !group->part->embedding || member_->first_stage();
    group->squared_norm = counts ? optimizer::SumOfSquares(norms.floats()) : 0;
    if (--groups_left_ > 0 || !done_) return;
    double squared = 0;
    for (const Group& one : groups_) squared += one.squared_norm;
    std::exchange(done_, nullptr)(squared);
  });
}

void QsdpStep::Fail(const Status& status) {
  // Only the first of several errors counts.
  if (applied_) return FinishApply(status);
  if (done_) return std::exchange(done_, nullptr)(status);
  if (early_error_.ok()) early_error_ = status;
}

// ---- the owners' step, and weights to all ----

OwnerRule QsdpStep::RuleOf(const ApplyOrder& order) const {
  OwnerRule rule;
  rule.options = OptimizerOptionsOf(*member_, order.step);
  rule.options.learning_rate = order.learning_rate;
  rule.options.gradient_factor =
      optimizer::ClipFactor(member_->model->options().optimizer.clip_norm, order.global_norm) /
      static_cast<double>(order.labels);
  rule.bucket = options_.bucket;
  return rule;
}

void QsdpStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  applied_ = std::move(done);
  member_->computing(std::nullopt);  // of which the owners' steps are a part
  rule_ = RuleOf(order);
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    group.small->Commit();
    group.reduce_scatters->Restart();
    group.all_gathers->Restart();
    group.buckets_left = group.buckets.size();
    for (Bucket& bucket : group.buckets) {
      bucket.exchange->Commit();
      bucket.begun = false;
      group.all_gathers->Ready(group.NumberOf(bucket));
    }
  }
  auto zero = [model = member_->model] {
    model->ZeroGradients();
    return true;
  };
  scope_.Run(member_->compute, "gradients.zero", std::move(zero), [](bool) {});
}

// Owners make their step chunk by chunk, while the first chunks are on their way.
void QsdpStep::Gather(Group* group, Bucket* bucket) {
  OwnerRule rule = rule_;
  rule.change = bucket->quantised && options_.delta && !order_.checkpoint;
  rule.counts = bucket->quantised && learns_;
  collective::ExchangeRequest request = NewRequest(*group, kWeights);
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
    request.result_codec = order_.checkpoint ? kExactCodec : group->codecs.weights();
  }
  Start(bucket->exchange.get(), std::move(request), [this, group, bucket](Buffer weights) {
    bucket->exchange->Commit();
    bucket->exchange->Recycle(std::move(*std::exchange(bucket->sum, nullptr)));
    group->all_gathers->Ended(group->NumberOf(*bucket), bucket->exchange->traffic().sent_bytes);
    Adopt(group, bucket, std::move(weights));
  });
}

void QsdpStep::Adopt(Group* group, Bucket* bucket, Buffer weights) {
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
               Learns(*group) ? ExchangeCounts(group) : FinishGroup();
             });
}

void QsdpStep::ExchangeCounts(Group* group) {
  LevelHistogram gradients = {}, weights = {};
  for (Bucket& bucket : group->buckets) {
    if (!bucket.quantised) continue;
    if (takes_part_) compression::AddCounts(bucket.counts, &gradients);
    compression::AddCounts(bucket.shard->TakeCounts(), &weights);
  }
  auto counts = std::make_shared<Buffer>(2 * sizeof(LevelHistogram));
  std::ranges::copy(gradients, counts->floats().begin());
  std::ranges::copy(weights, counts->floats().begin() + compression::kLevelBins);
  collective::ExchangeRequest request = NewRequest(*group, kCounts);
  request.values = std::move(counts);
  Start(group->small.get(), std::move(request), [this, group](const Buffer& sums) {
    group->small->Commit();
    // From the next step on.
    if (Status status = group->codecs.Learn(sums.floats()); !status.ok()) return Fail(status);
    FinishGroup();
  });
}

void QsdpStep::FinishGroup() {
  if (--groups_left_ > 0) return;
  learn_steps_.Applied();
  takes_part_ = true;
  again_ = false;
  order_.checkpoint ? GatherMoments() : FinishApply(Status::Ok());
}

void QsdpStep::GatherMoments() {
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    std::vector<ShardedVector> vectors;
    for (const Bucket& bucket : group.buckets) {
      const std::shared_ptr<optimizer::AdamWShard> shard(bucket.shard, bucket.shard->state());
      vectors.push_back({bucket.shard->part(), bucket.shard->shards(), shard});
    }
    group.moments->Start(std::move(vectors), [this](const Status& status) {
      if (!status.ok() || --groups_left_ == 0) FinishApply(status);
    });
  }
}

void QsdpStep::FinishApply(const Status& status) {
  if (applied_) std::exchange(applied_, nullptr)(status);
}

std::uint64_t QsdpStep::StateBytes() const {
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) {
    for (const Bucket& bucket : group.buckets) bytes += bucket.shard->bytes();
  }
  return bytes;
}

std::string QsdpStep::Awaited(const PeerId** peer) const {
  for (const Group& group : groups_) {
    std::vector<std::size_t> members = group.small->Awaited();
    for (const Bucket& bucket : group.buckets) {
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
