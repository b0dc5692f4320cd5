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
// need not hold them (model::HeldState): so a checkpoint has all of the state and any number of
// members goes on from it.

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <utility>

#include "compression/codecs/learned_levels.h"
#include "pipeline/gradient_buckets.h"
#include "pipeline/learned_codecs.h"
#include "pipeline/moment_gather.h"
#include "pipeline/owned_shard.h"
#include "pipeline/part_lans.h"
#include "pipeline/replica_step.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/direct/hierarchical_exchange.h"
#include "replica/collective/exchange.h"

namespace shoal::pipeline {
namespace {

using compression::LevelHistogram;
using model::StateVector;

constexpr char kExactCodec[] = "raw:dtype=fp32";

// Channels of a part's group.
enum Channel : std::size_t { kSmall, kMoments, kFirstLane };
// Rounds of a step: gradients and, behind a wrong guess, gradients again; weights; norms, counts.
enum Round : std::uint64_t { kGradients = 1, kAgain, kWeights, kNorms, kCounts, kRounds };
// Vectors of a lane that keep their errors apart.
enum Tensor : std::uint32_t { kOfGradients, kOfWeights };

class QsdpStep final : public ReplicaStep {
 public:
  explicit QsdpStep(const ReplicaContext& context)
      : core_(context.core),
        links_(context.links),
        method_(context.method),
        final_after_(context.final_after),
        learn_steps_(context.method.qsdp, context.core->config.steps),
        scope_(core_->deps.control) {}

  Status Init(const ReplicaContext& context);
  void OnFinalGradients(std::uint64_t step, std::size_t parts) override;
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::uint64_t StateBytes() const override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  // The way of a bucket: gradients to the owners, weights back.
  struct Lane {
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
    explicit Group(const compression::QsdpOptions& options) : codecs(options) {}
    std::shared_ptr<const ReplicaPart> part;
    collective::LanGroups lans;  // by member
    std::unique_ptr<collective::ChannelMux> mux;
    std::unique_ptr<collective::Exchange> small;  // norms and counts
    std::unique_ptr<MomentGather> moments;
    std::vector<Lane> lanes;                         // in the order in which all begin with them
    std::unique_ptr<BucketQueue> scatters, gathers;  // of the lanes
    std::size_t lanes_left = 0;                      // of Apply
    LearnedCodecs codecs;
    double squared_norm = 0;

    std::size_t NumberOf(const Lane& lane) const {
      return static_cast<std::size_t>(&lane - lanes.data());
    }
  };

  Status OpenGroup(Group* group);
  Status AddLane(Group* group, const GradientBucket& bucket, bool quantised);
  Result<std::unique_ptr<collective::Exchange>> NewExchange(
      const collective::ExchangeConfig& config, const collective::LanGroups& lans,
      collective::GroupChannel* channel) const;
  void Load();
  bool Learns(const Group& group) const;
  void BeginStep(std::uint64_t step);
  void Read(Group* group, Lane* lane);
  void StartAgain(Group* group);
  void Scatter(Group* group, Lane* lane);
  void MaybeExchangeNorms(Group* group);
  void ExchangeNorms(Group* group, double squared_norm);
  OwnerRule RuleOf(const ApplyOrder& order) const;
  void Gather(Group* group, Lane* lane);
  void Adopt(Group* group, Lane* lane, Buffer weights);
  void ExchangeCounts(Group* group);
  void FinishGroup();
  void GatherMoments();
  void FinishApply(const Status& status);
  void Fail(const Status& status);
  collective::ExchangeRequest NewRequest(const Group& group, Round round) const;
  void Start(collective::Exchange* exchange, collective::ExchangeRequest request,
             std::function<void(Buffer)> then);

  RunnerCore* const core_;
  const GroupLinks* const links_;
  const compression::ReplicaMethod method_;
  const FinalParts final_after_;
  LearnSteps learn_steps_;
  std::deque<Group> groups_;
  std::uint64_t step_ = 0;  // running
  bool learns_ = false;     // at its end
  bool takes_part_ = true;  // this pipeline in it; until Reduce says otherwise
  bool again_ = false;      // it is in its second round
  Status early_error_;      // came before Reduce
  ReduceOrder order_;
  OwnerRule rule_;  // without what lanes differ in
  std::size_t groups_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::function<void(Status)> applied_;       // null: no Apply is
  TaskScope scope_;                           // last: its tasks use what is above
};

Status QsdpStep::Init(const ReplicaContext& context) {
  for (const auto& part : context.parts) {
    Group& group = groups_.emplace_back(method_.qsdp);
    group.part = part;
    SHOAL_ASSIGN_OR_RETURN(group.lans, LansOfPart(core_->config, method_.qsdp, *part));
    SHOAL_RETURN_IF_ERROR(OpenGroup(&group));
  }
  Load();
  return Status::Ok();
}

Status QsdpStep::OpenGroup(Group* group) {
  std::vector<std::pair<GradientBucket, bool>> buckets;
  for (const bool quantised : {true, false}) {
    const auto part = Select(*group->part, [&](const model::TensorLayout& tensor) {
      return (tensor.shape.size() >= 2 && tensor.size >= method_.qsdp.raw_below) == quantised;
    });
    if (part->values == 0) continue;
    for (GradientBucket& bucket : CutBuckets(part, final_after_, core_->config.bucket_values_min)) {
      buckets.emplace_back(std::move(bucket), quantised);
    }
  }
  std::ranges::stable_sort(buckets, {}, [](const auto& one) { return one.first.final_after; });
  group->mux = std::make_unique<collective::ChannelMux>(
      group->part->channel, kFirstLane + buckets.size(), [core = core_](const Status& status) {
        core->fail(status.WithContext("inside the stage group"), nullptr);
      });
  group->scatters = std::make_unique<BucketQueue>(
      [this, group](std::size_t i) { Scatter(group, &group->lanes[i]); });
  group->gathers = std::make_unique<BucketQueue>(
      [this, group](std::size_t i) { Gather(group, &group->lanes[i]); });
  for (const auto& [bucket, quantised] : buckets) {
    SHOAL_RETURN_IF_ERROR(AddLane(group, bucket, quantised));
  }
  collective::ExchangeConfig small;
  small.row = 1;
  small.epoch = core_->config.generation;
  SHOAL_ASSIGN_OR_RETURN(group->small,
                         collective::NewDirectExchange(small, group->mux->channel(kSmall),
                                                       core_->deps.control, core_->deps.codec));
  collective::ExchangeConfig config;
  config.row = method_.qsdp.bucket;
  config.epoch = core_->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * MomentGather::kSliceValues;
  SHOAL_ASSIGN_OR_RETURN(auto moments,
                         NewExchange(config, group->lans, group->mux->channel(kMoments)));
  group->moments =
      std::make_unique<MomentGather>(core_, std::move(moments), group->lans, config.row);
  return Status::Ok();
}

Status QsdpStep::AddLane(Group* group, const GradientBucket& bucket, bool quantised) {
  const ReplicaPart& part = *bucket.part;
  const std::size_t number = group->lanes.size();
  collective::ExchangeConfig config;
  config.row = method_.qsdp.bucket;
  config.seed =
      SeedOf(core_->config.seed, number + 1 + (part.embedding ? collective::kMuxChannelsMax : 0));
  config.epoch = core_->config.generation;
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
  Lane lane;
  lane.shard = std::make_shared<OwnedShard>(
      bucket.part,
      collective::HierarchicalShards(part.values, group->lans, weights, {}, config.row),
      quantised && method_.qsdp.delta);
  lane.quantised = quantised;
  lane.final_after = bucket.final_after;
  SHOAL_ASSIGN_OR_RETURN(
      lane.exchange, NewExchange(config, group->lans, group->mux->channel(kFirstLane + number)));
  group->scatters->Add(part.values);
  group->gathers->Add(part.values);
  group->lanes.push_back(std::move(lane));
  return Status::Ok();
}

// Codes and sums run beside the model, which is at work on what is not final yet.
Result<std::unique_ptr<collective::Exchange>> QsdpStep::NewExchange(
    const collective::ExchangeConfig& config, const collective::LanGroups& lans,
    collective::GroupChannel* channel) const {
  Executor* const control = core_->deps.control;
  if (lans.back() + 1 == lans.size()) {  // nobody shares one
    return collective::NewDirectExchange(config, channel, control, core_->deps.codec);
  }
  return collective::NewHierarchicalExchange({config, lans}, channel, control, core_->deps.codec);
}

// Before any gradient is read, and so before any shard is used.
void QsdpStep::Load() {
  std::vector<std::shared_ptr<OwnedShard>> shards;
  for (const Group& group : groups_) {
    for (const Lane& lane : group.lanes) shards.push_back(lane.shard);
  }
  auto load = [model = core_->deps.model, shards = std::move(shards)] {
    for (const auto& shard : shards) SHOAL_RETURN_IF_ERROR(shard->Load(model));
    return Status::Ok();
  };
  scope_.Run(core_->deps.compute, "shards.load", std::move(load), [this](const Status& status) {
    if (!status.ok()) core_->fail(status.WithContext("the stage's shards"), nullptr);
  });
}

bool QsdpStep::Learns(const Group& group) const {
  return learns_ && std::any_of(group.lanes.begin(), group.lanes.end(),
                                [](const Lane& lane) { return lane.quantised; });
}

collective::ExchangeRequest QsdpStep::NewRequest(const Group& group, Round round) const {
  collective::ExchangeRequest request;
  request.round = step_ * kRounds + round;
  request.weights.assign(group.part->channel->size(), 1);
  return request;
}

void QsdpStep::Start(collective::Exchange* exchange, collective::ExchangeRequest request,
                     std::function<void(Buffer)> then) {
  core_->Progress();
  exchange->Start(std::move(request), [this, then = std::move(then)](Result<Buffer> agreed) {
    if (!agreed.ok()) return Fail(agreed.status());
    core_->Progress();
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
    for (Lane& lane : group.lanes) {
      if (!lane.begun && lane.final_after <= parts) Read(&group, &lane);
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
  takes_part_ = std::find(counted.begin(), counted.end(), core_->config.pipeline) != counted.end();
  again_ = counted.size() != core_->config.pipelines;  // each is named once
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    CountRaw(*group.part, std::vector<std::uint64_t>(group.part->channel->size(), 1),
             group.part->values, &core_->stats.replica);
    if (again_) StartAgain(&group);
    for (Lane& lane : group.lanes) {
      if (!lane.begun) Read(&group, &lane);
    }
    MaybeExchangeNorms(&group);
  }
}

void QsdpStep::Read(Group* group, Lane* lane) {
  lane->begun = true;
  struct Read {
    Buffer gradient;
    LevelHistogram counts = {};
  };
  auto read = [model = core_->deps.model, part = lane->shard->part(),
               learns = learns_ && lane->quantised, bucket = method_.qsdp.bucket,
               spare = std::move(lane->spare)]() mutable -> Result<Read> {
    Read result;
    result.gradient = Sized(std::move(spare), part->values * sizeof(float));
    const std::span<float> values = result.gradient.floats();
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, *part, values));
    if (learns) result.counts = compression::HistogramOf(values, bucket);
    return result;
  };
  scope_.Run(core_->deps.compute, "gradients.read", std::move(read),
             [this, group, lane](Result<Read> result) {
               if (!result.ok()) return Fail(result.status());
               lane->own = std::make_shared<Buffer>(std::move(result->gradient));
               lane->counts = result->counts;
               group->scatters->Ready(group->NumberOf(*lane));
             });
}

void QsdpStep::StartAgain(Group* group) {
  for (Lane& lane : group->lanes) {
    lane.exchange->Rollback();
    lane.sum = nullptr;
  }
  group->scatters->Restart();
  for (const Lane& lane : group->lanes) {
    if (lane.own != nullptr) group->scatters->Ready(group->NumberOf(lane));
  }
}

void QsdpStep::Scatter(Group* group, Lane* lane) {
  core_->Progress();
  collective::ExchangeRequest request = NewRequest(*group, again_ ? kAgain : kGradients);
  request.tensor = kOfGradients;
  request.flow = collective::Flow::kScatter;
  request.values = lane->own;
  if (!takes_part_) {
    auto zeros = std::make_shared<Buffer>(lane->own->size());
    std::ranges::fill(zeros->floats(), 0.0F);
    request.values = std::move(zeros);
  }
  if (lane->quantised) request.codec = group->codecs.gradients();
  lane->exchange->Start(
      std::move(request), [this, group, lane, again = again_](Result<Buffer> sum) {
        if (again != again_) return;
        if (!sum.ok()) return Fail(sum.status());
        core_->Progress();
        lane->sum = std::make_shared<Buffer>(std::move(*sum));
        group->scatters->Ended(group->NumberOf(*lane), lane->exchange->traffic().sent_bytes);
        if (done_) MaybeExchangeNorms(group);
      });
}

// ---- the norm of their sum ----

void QsdpStep::MaybeExchangeNorms(Group* group) {
  std::vector<std::shared_ptr<const Buffer>> sums;
  for (const Lane& lane : group->lanes) {
    if (lane.sum == nullptr) return;
    sums.push_back(lane.sum);
  }
  for (Lane& lane : group->lanes) {
    // Work of a round that was rolled back may still read it.
    if (!again_ && lane.own != nullptr) lane.spare = std::move(*lane.own);
    lane.own = nullptr;
  }
  auto square = [sums = std::move(sums)] {
    double squared = 0;
    for (const auto& sum : sums) squared += optimizer::SumOfSquares(sum->floats());
    return squared;
  };
  scope_.Run(core_->deps.codec, "gradients.norm", std::move(square),
             [this, group](double squared) { ExchangeNorms(group, squared); });
}

// Every member knows the norm of its shards only.
void QsdpStep::ExchangeNorms(Group* group, double squared_norm) {
  if (!std::isfinite(squared_norm)) {
    return Fail(InvalidArgument(
        "the sum of the stage group's gradients is not finite; lower learning_rate in run.toml"));
  }
  collective::ExchangeRequest request = NewRequest(*group, kNorms);
  request.flow = collective::Flow::kGather;
  request.count = group->part->channel->size();  // one each
  request.transform = [norm = static_cast<float>(std::sqrt(squared_norm))](
                          std::size_t, std::span<float> values) {
    std::ranges::fill(values, norm);
    return Status::Ok();
  };
  Start(group->small.get(), std::move(request), [this, group](const Buffer& norms) {
    // The embedding counts on one of its two stages, as its gradient does.
    const bool counts = !group->part->embedding || core_->first_stage();
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
  rule.options = OptimizerOptionsOf(*core_, order.step);
  rule.options.learning_rate = order.learning_rate;
  rule.options.gradient_factor =
      optimizer::ClipFactor(core_->deps.model->options().optimizer.clip_norm, order.global_norm) /
      static_cast<double>(order.labels);
  rule.bucket = method_.qsdp.bucket;
  return rule;
}

void QsdpStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  applied_ = std::move(done);
  core_->time.Become(Use::kExchange);  // of which the owners' steps are a part
  rule_ = RuleOf(order);
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    group.small->Commit();
    group.scatters->Restart();
    group.gathers->Restart();
    group.lanes_left = group.lanes.size();
    for (Lane& lane : group.lanes) {
      lane.exchange->Commit();
      lane.begun = false;
      group.gathers->Ready(group.NumberOf(lane));
    }
  }
  auto zero = [model = core_->deps.model] {
    model->ZeroGradients();
    return true;
  };
  scope_.Run(core_->deps.compute, "gradients.zero", std::move(zero), [](bool) {});
}

// Owners make their step chunk by chunk, while the first chunks are on their way.
void QsdpStep::Gather(Group* group, Lane* lane) {
  OwnerRule rule = rule_;
  rule.change = lane->quantised && method_.qsdp.delta && !order_.checkpoint;
  rule.counts = lane->quantised && learns_;
  collective::ExchangeRequest request = NewRequest(*group, kWeights);
  request.tensor = kOfWeights;
  request.flow = collective::Flow::kGather;
  request.count = lane->shard->part()->values;
  request.transform = [shard = lane->shard, rule, sum = lane->sum](std::size_t first,
                                                                   std::span<float> values) {
    shard->Step(rule, std::as_const(*sum).floats(), first, values);
    return Status::Ok();
  };
  if (lane->quantised) {
    request.codec = group->codecs.gradients();
    request.result_codec = order_.checkpoint ? kExactCodec : group->codecs.weights();
  }
  Start(lane->exchange.get(), std::move(request), [this, group, lane](Buffer weights) {
    lane->exchange->Commit();
    lane->exchange->Recycle(std::move(*std::exchange(lane->sum, nullptr)));
    group->gathers->Ended(group->NumberOf(*lane), lane->exchange->traffic().sent_bytes);
    Adopt(group, lane, std::move(weights));
  });
}

void QsdpStep::Adopt(Group* group, Lane* lane, Buffer weights) {
  auto adopt = [model = core_->deps.model, shard = lane->shard,
                change = lane->quantised && method_.qsdp.delta && !order_.checkpoint,
                weights = std::move(weights)]() mutable -> Result<Buffer> {
    SHOAL_RETURN_IF_ERROR(shard->Adopt(model, change, weights.floats()));
    return std::move(weights);
  };
  scope_.Run(core_->deps.compute, "weights.adopt", std::move(adopt),
             [this, group, lane](Result<Buffer> adopted) {
               if (!adopted.ok()) return Fail(adopted.status());
               lane->exchange->Recycle(std::move(*adopted));
               core_->Progress();
               if (--group->lanes_left > 0) return;
               Learns(*group) ? ExchangeCounts(group) : FinishGroup();
             });
}

void QsdpStep::ExchangeCounts(Group* group) {
  LevelHistogram gradients = {}, weights = {};
  for (Lane& lane : group->lanes) {
    if (!lane.quantised) continue;
    if (takes_part_) compression::AddCounts(lane.counts, &gradients);
    compression::AddCounts(lane.shard->TakeCounts(), &weights);
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
    for (const Lane& lane : group.lanes) {
      const std::shared_ptr<optimizer::AdamWShard> shard(lane.shard, lane.shard->state());
      vectors.push_back({lane.shard->part(), lane.shard->shards(), shard});
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
    for (const Lane& lane : group.lanes) bytes += lane.shard->bytes();
  }
  return bytes;
}

std::string QsdpStep::Awaited(const PeerId** peer) const {
  for (const Group& group : groups_) {
    std::vector<std::size_t> members = group.small->Awaited();
    for (const Lane& lane : group.lanes) {
      if (members.empty()) members = lane.exchange->Awaited();
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

}  // namespace shoal::pipeline
