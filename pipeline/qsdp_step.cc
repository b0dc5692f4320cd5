// The method with sharded optimizer state, `qsdp` (Markov, Vladu, Guo and Alistarh, ICML 2023):
// every member owns a shard of the stage's values: their fp32 weights and moments. Gradients travel
// to the owners, quantised without bias; an owner makes AdamW's step of their sum, and its new
// weights travel to all, quantised with a random shift. Everybody, the owner too, goes on with what
// these bytes decode to. Tensors that are few or sensitive (norms, biases) travel in fp32, by an
// exchange of their own.
//
// Shards are cut when a generation begins, from what the model was loaded with. A step that is
// saved sends exact weights, and its Apply gives all moments to the model, slice by slice, which
// need not hold them (model::HeldState): so a checkpoint has all of the state and any number of
// members goes on from it.
//
// An owner's step happens inside the exchange, before the step of the run is agreed on: an aborted
// one has moved the shards. It also ends the generation, with it this object, and the next one
// begins with a checkpoint; the model itself changes in Apply only.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "collective/channel_mux.h"
#include "collective/exchange.h"
#include "collective/hierarchical_exchange.h"
#include "collective/shard_layout.h"
#include "common/mutex.h"
#include "compression/learned_levels.h"
#include "optimizer/adamw_shard.h"
#include "pipeline/moment_gather.h"
#include "pipeline/part_lans.h"
#include "pipeline/replica_step.h"

namespace shoal::pipeline {
namespace {

using compression::LevelHistogram;
using model::StateVector;

constexpr char kExactCodec[] = "raw:dtype=fp32";

// Channels of a part's group.
enum Channel : std::size_t { kSmall, kQuantised, kExact, kMoments, kChannels };
// Rounds of a step, and vectors that keep their errors apart.
enum Round : std::uint64_t { kWeights = 1, kNorms = 4, kLevels, kRounds };

std::uint64_t RoundOf(std::uint64_t step, Round round) { return step * kRounds + round; }

// The tensors of a part that travel alike, and the own shard of them. What tasks change in it they
// do before the step's end is told to control.
struct Piece {
  std::shared_ptr<const ReplicaPart> part;
  std::vector<collective::ValueRange> shards;  // by member
  collective::ValueRange own;
  optimizer::AdamWShard shard;
  bool loaded = false;
  Buffer base;  // the own shard of the weights that all have; only if changes travel

  Mutex mutex;
  std::map<std::size_t, double> squares SHOAL_GUARDED_BY(mutex);  // of the sum, by first value
  LevelHistogram sent SHOAL_GUARDED_BY(mutex) = {};               // own weights or changes

  double SquaredNorm() {
    MutexLock lock(mutex);
    double sum = 0;
    for (const auto& [first, squared] : squares) sum += squared;
    return sum;
  }
};

// What a step's Apply will write.
struct Staged {
  std::shared_ptr<Piece> piece;
  Buffer weights;  // or their change
  bool change = false;
};

// How an owner answers the sum of a chunk of gradients.
struct OwnerRule {
  optimizer::AdamWOptions options;
  bool change = false;  // in place of the weights
  bool learns = false;  // counts what it sends, which changes make if `delta`
  bool delta = false;
  std::uint32_t bucket = 1;
};

void TakeAway(std::span<const float> base, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= base[i];
}

void AddCounts(const LevelHistogram& counts, LevelHistogram* sum) {
  for (std::size_t i = 0; i < counts.size(); ++i) (*sum)[i] += counts[i];
}

// Thread: compute; chunks of a piece may run at once.
Status Answer(Piece* piece, const OwnerRule& rule, std::size_t first, std::span<float> values) {
  const double squared = optimizer::SumOfSquares(values);
  if (!std::isfinite(squared)) {
    return InvalidArgument(
        "the sum of the stage group's gradients is not finite; lower learning_rate in run.toml");
  }
  piece->shard.Update(rule.options, first, values);
  const std::span<const float> base =
      rule.delta
          ? std::as_const(piece->base).floats().subspan(first - piece->own.begin, values.size())
          : std::span<const float>();
  if (rule.change) TakeAway(base, values);
  LevelHistogram counts = {};
  if (rule.learns && rule.delta && !rule.change) {
    std::vector<float> change(values.begin(), values.end());
    TakeAway(base, change);
    counts = compression::HistogramOf(change, rule.bucket);
  } else if (rule.learns) {
    counts = compression::HistogramOf(values, rule.bucket);
  }
  MutexLock lock(piece->mutex);
  piece->squares[first] = squared;
  AddCounts(counts, &piece->sent);
  return Status::Ok();
}

// Fills the shard from the model, where all members have all of the state. Thread: compute.
Status LoadShard(model::StageModel* model, bool delta, Piece* piece) {
  const ReplicaPart& part = *piece->part;
  const std::size_t first = piece->own.begin;
  optimizer::AdamWShard& shard = piece->shard;
  SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kWeights, part, first, shard.weights()));
  SHOAL_RETURN_IF_ERROR(
      ReadPart(model, StateVector::kFirstMoment, part, first, shard.first_moment()));
  SHOAL_RETURN_IF_ERROR(
      ReadPart(model, StateVector::kSecondMoment, part, first, shard.second_moment()));
  if (delta) piece->base = Buffer::CopyOf(std::as_bytes(shard.weights()));
  piece->loaded = true;
  return Status::Ok();
}

// Thread: compute.
Status ApplyStaged(model::StageModel* model, Staged* staged) {
  const ReplicaPart& part = *staged->piece->part;
  const std::span<float> weights = staged->weights.floats();
  if (staged->change) {
    Buffer before(staged->weights.size());
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kWeights, part, before.floats()));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += before.floats()[i];
  }
  Buffer& base = staged->piece->base;
  if (!base.empty()) {
    std::ranges::copy(weights.subspan(staged->piece->own.begin, base.floats().size()),
                      base.floats().begin());
  }
  return WritePart(model, StateVector::kWeights, part, weights);
}

class QsdpStep final : public ReplicaStep {
 public:
  explicit QsdpStep(const ReplicaContext& context)
      : core_(context.core),
        links_(context.links),
        method_(context.method),
        learn_steps_(context.method.qsdp.LearnSteps(context.core->config.steps)),
        scope_(core_->deps.control) {}

  Status Init(const ReplicaContext& context);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::uint64_t StateBytes() const override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  struct Lane {
    std::shared_ptr<Piece> piece;
    bool quantised = false;
    std::unique_ptr<collective::Exchange> exchange;
    std::shared_ptr<Staged> staged;
  };
  struct Group {
    std::shared_ptr<const ReplicaPart> part;
    std::unique_ptr<collective::ChannelMux> mux;
    std::unique_ptr<collective::Exchange> small;  // norms and counts
    std::unique_ptr<MomentGather> moments;
    std::vector<Lane> lanes;
    collective::LanGroups lans;  // by member
    std::size_t lanes_left = 0;
    std::string weight_codec, gradient_codec;  // with what was learned
    LevelHistogram gradients = {};             // own, of the running step
    double squared_norm = 0;
  };

  Status AddLane(Group* group, bool quantised);
  Result<std::unique_ptr<collective::Exchange>> NewExchange(
      const collective::ExchangeConfig& config, const collective::LanGroups& lans,
      collective::GroupChannel* channel) const;
  bool Learns(std::uint64_t step) const;
  void Read(Group* group, Lane* lane);
  void Exchange(Group* group, Lane* lane, Buffer gradient);
  Status AddMoments(Group* group);
  void GatherMoments();
  void FinishApply(const Status& status);
  void FinishLane(Group* group);
  void ExchangeNorms(Group* group);
  void ExchangeCounts(Group* group);
  Status Learn(Group* group, std::span<const float> counts);
  void FinishGroup();
  void Fail(const Status& status);
  collective::ExchangeRequest NewRequest(const Group& group, Round round) const;
  void Start(collective::Exchange* exchange, collective::ExchangeRequest request,
             std::function<void(Buffer)> then);

  RunnerCore* const core_;
  const GroupLinks* const links_;
  const compression::ReplicaMethod method_;
  const std::vector<std::uint64_t> learn_steps_;
  std::vector<Group> groups_;
  ReduceOrder order_;
  bool began_ = false;   // a step of this generation was applied
  bool learns_ = false;  // at the end of the running step
  std::size_t groups_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::function<void(Status)> applied_;       // null: no Apply is
  TaskScope scope_;                           // last: its tasks use what is above
};

Status QsdpStep::Init(const ReplicaContext& context) {
  for (const auto& part : context.parts) {
    Group group;
    group.part = part;
    group.weight_codec = method_.qsdp.WeightCodec();
    group.gradient_codec = method_.qsdp.GradientCodec();
    SHOAL_ASSIGN_OR_RETURN(group.lans, LansOfPart(core_->config, method_.qsdp, *part));
    group.mux = std::make_unique<collective::ChannelMux>(
        part->channel, kChannels, [core = core_](const Status& status) {
          core->fail(status.WithContext("inside the stage group"), nullptr);
        });
    collective::ExchangeConfig small;
    small.row = 1;
    small.epoch = core_->config.generation;
    SHOAL_ASSIGN_OR_RETURN(group.small,
                           collective::NewDirectExchange(small, group.mux->channel(kSmall),
                                                         core_->deps.control, core_->deps.compute));
    for (const bool quantised : {true, false}) {
      SHOAL_RETURN_IF_ERROR(AddLane(&group, quantised));
    }
    SHOAL_RETURN_IF_ERROR(AddMoments(&group));
    groups_.push_back(std::move(group));
  }
  return Status::Ok();
}

Status QsdpStep::AddLane(Group* group, bool quantised) {
  auto piece = std::make_shared<Piece>();
  const auto wanted = [&](const model::TensorLayout& tensor) {
    return (tensor.shape.size() >= 2 && tensor.size >= method_.qsdp.raw_below) == quantised;
  };
  piece->part = Select(*group->part, wanted);
  const ReplicaPart& part = *piece->part;
  if (part.values == 0) return Status::Ok();
  collective::ExchangeConfig config;
  config.row = method_.qsdp.bucket;
  config.seed = core_->config.seed;
  config.epoch = core_->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * part.values;
  if (quantised) {
    config.codec = method_.codec;
    config.result_codec = kExactCodec;  // the most that any round needs
    config.error_feedback = method_.feedback;
    config.result_feedback = false;
  }
  // Whoever does not count in a step owns its shard all the same.
  const std::vector<std::uint64_t> weights(part.channel->size(), 1);
  piece->shards = collective::HierarchicalShards(part.values, group->lans, weights, {}, config.row);
  piece->own = piece->shards[part.channel->rank()];
  piece->shard = optimizer::AdamWShard(piece->own.begin, piece->own.size(), DecayRunsOf(part));
  Lane lane;
  lane.piece = std::move(piece);
  lane.quantised = quantised;
  SHOAL_ASSIGN_OR_RETURN(
      lane.exchange,
      NewExchange(config, group->lans, group->mux->channel(quantised ? kQuantised : kExact)));
  group->lanes.push_back(std::move(lane));
  return Status::Ok();
}

Status QsdpStep::AddMoments(Group* group) {
  collective::ExchangeConfig config;
  config.row = method_.qsdp.bucket;
  config.epoch = core_->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * MomentGather::kSliceValues;
  SHOAL_ASSIGN_OR_RETURN(auto exchange,
                         NewExchange(config, group->lans, group->mux->channel(kMoments)));
  group->moments =
      std::make_unique<MomentGather>(core_, std::move(exchange), group->lans, config.row);
  return Status::Ok();
}

Result<std::unique_ptr<collective::Exchange>> QsdpStep::NewExchange(
    const collective::ExchangeConfig& config, const collective::LanGroups& lans,
    collective::GroupChannel* channel) const {
  Executor* const control = core_->deps.control;
  if (lans.back() + 1 == lans.size()) {  // nobody shares one
    return collective::NewDirectExchange(config, channel, control, core_->deps.compute);
  }
  return collective::NewHierarchicalExchange({config, lans}, channel, control, core_->deps.compute);
}

// A generation that begins behind such a step learns at once, since levels are in no checkpoint.
bool QsdpStep::Learns(std::uint64_t step) const {
  return std::any_of(learn_steps_.begin(), learn_steps_.end(), [&](std::uint64_t learn) {
    return step == learn || (!began_ && learn < step);
  });
}

void QsdpStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  learns_ = Learns(order.step);
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    group.lanes_left = group.lanes.size();
    group.gradients = {};
    CountRaw(*group.part, std::vector<std::uint64_t>(group.part->channel->size(), 1),
             group.part->values, &core_->stats.replica);
    for (Lane& lane : group.lanes) Read(&group, &lane);
  }
}

void QsdpStep::Read(Group* group, Lane* lane) {
  const std::vector<std::uint32_t>& counted = order_.pipelines;
  const std::uint32_t own = core_->config.pipeline;
  const bool counts = std::find(counted.begin(), counted.end(), own) != counted.end();
  const double clip = optimizer::ClipFactor(core_->deps.model->options().optimizer.clip_norm,
                                            order_.local_norms[own]);
  struct Read {
    Buffer gradient;
    LevelHistogram counts = {};
  };
  auto read = [model = core_->deps.model, piece = lane->piece, delta = method_.qsdp.delta,
               learns = learns_ && lane->quantised, bucket = method_.qsdp.bucket, counts,
               factor = static_cast<float>(clip)]() -> Result<Read> {
    if (!piece->loaded) SHOAL_RETURN_IF_ERROR(LoadShard(model, delta, piece.get()));
    {
      MutexLock lock(piece->mutex);
      piece->squares.clear();
      piece->sent = {};
    }
    Read result;
    result.gradient = Buffer(piece->part->values * sizeof(float));
    const std::span<float> values = result.gradient.floats();
    std::ranges::fill(values, 0.0F);
    if (!counts) return result;
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, *piece->part, values));
    for (float& value : values) value *= factor;
    if (learns) result.counts = compression::HistogramOf(values, bucket);
    return result;
  };
  scope_.Run(core_->deps.compute, "gradients.read", std::move(read),
             [this, group, lane](Result<Read> result) {
               if (!result.ok()) return Fail(result.status());
               AddCounts(result->counts, &group->gradients);
               Exchange(group, lane, std::move(result->gradient));
             });
}

collective::ExchangeRequest QsdpStep::NewRequest(const Group& group, Round round) const {
  collective::ExchangeRequest request;
  request.round = RoundOf(order_.step, round);
  request.tensor = static_cast<std::uint32_t>(round);
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

void QsdpStep::Exchange(Group* group, Lane* lane, Buffer gradient) {
  const model::OptimizerOptions& optimizer = core_->deps.model->options().optimizer;
  OwnerRule rule;
  rule.options.beta1 = optimizer.beta1;
  rule.options.beta2 = optimizer.beta2;
  rule.options.epsilon = optimizer.epsilon;
  rule.options.weight_decay = optimizer.weight_decay;
  rule.options.learning_rate = order_.learning_rate;
  rule.options.step = order_.step;
  rule.options.gradient_factor = 1.0 / static_cast<double>(order_.labels);
  rule.delta = lane->quantised && method_.qsdp.delta;
  rule.change = rule.delta && !order_.checkpoint;
  rule.learns = lane->quantised && learns_;
  rule.bucket = method_.qsdp.bucket;
  lane->staged = std::make_shared<Staged>();
  lane->staged->piece = lane->piece;
  lane->staged->change = rule.change;
  collective::ExchangeRequest request = NewRequest(*group, kWeights);
  request.values = std::make_shared<const Buffer>(std::move(gradient));
  request.transform = [piece = lane->piece, rule](std::size_t first, std::span<float> values) {
    return Answer(piece.get(), rule, first, values);
  };
  if (lane->quantised) {
    request.codec = group->gradient_codec;
    request.result_codec = order_.checkpoint ? kExactCodec : group->weight_codec;
  }
  Start(lane->exchange.get(), std::move(request), [this, group, lane](Buffer weights) {
    lane->staged->weights = std::move(weights);
    FinishLane(group);
  });
}

void QsdpStep::FinishLane(Group* group) {
  if (--group->lanes_left == 0) ExchangeNorms(group);
}

// Every member knows the norm of its shard only.
void QsdpStep::ExchangeNorms(Group* group) {
  double squared = 0;
  for (Lane& lane : group->lanes) squared += lane.piece->SquaredNorm();
  collective::ExchangeRequest request = NewRequest(*group, kNorms);
  request.flow = collective::Flow::kGather;
  request.count = group->part->channel->size();  // one each
  request.transform = [norm = static_cast<float>(std::sqrt(squared))](std::size_t,
                                                                      std::span<float> values) {
    std::ranges::fill(values, norm);
    return Status::Ok();
  };
  Start(group->small.get(), std::move(request), [this, group](const Buffer& norms) {
    // The embedding counts on one of its two stages, as its gradient does.
    const bool counts = !group->part->embedding || core_->first_stage();
    group->squared_norm = counts ? optimizer::SumOfSquares(norms.floats()) : 0;
    const bool learns = learns_ && std::any_of(group->lanes.begin(), group->lanes.end(),
                                               [](const Lane& lane) { return lane.quantised; });
    learns ? ExchangeCounts(group) : FinishGroup();
  });
}

void QsdpStep::ExchangeCounts(Group* group) {
  auto counts = std::make_shared<Buffer>(2 * sizeof(LevelHistogram));
  const std::span<float> values = counts->floats();
  std::ranges::copy(group->gradients, values.begin());
  for (Lane& lane : group->lanes) {
    if (!lane.quantised) continue;
    MutexLock lock(lane.piece->mutex);
    std::ranges::copy(lane.piece->sent, values.begin() + compression::kLevelBins);
  }
  collective::ExchangeRequest request = NewRequest(*group, kLevels);
  request.values = std::move(counts);
  Start(group->small.get(), std::move(request), [this, group](const Buffer& sums) {
    if (Status status = Learn(group, sums.floats()); !status.ok()) return Fail(status);
    FinishGroup();
  });
}

// From the next step on.
Status QsdpStep::Learn(Group* group, std::span<const float> counts) {
  const compression::QsdpOptions& options = method_.qsdp;
  if (options.learns_gradients()) {
    SHOAL_ASSIGN_OR_RETURN(
        const compression::LevelTable levels,
        compression::LearnLevels(counts.first(compression::kLevelBins), options.gradient_bits));
    group->gradient_codec = options.LearnedCodec(options.gradient_bits, levels);
  }
  if (options.learns_weights()) {
    SHOAL_ASSIGN_OR_RETURN(
        const compression::LevelTable levels,
        compression::LearnLevels(counts.subspan(compression::kLevelBins), options.weight_bits));
    group->weight_codec = options.LearnedCodec(options.weight_bits, levels);
  }
  return Status::Ok();
}

void QsdpStep::FinishGroup() {
  if (--groups_left_ > 0 || !done_) return;
  double squared = 0;
  for (const Group& group : groups_) squared += group.squared_norm;
  std::exchange(done_, nullptr)(squared);
}

void QsdpStep::Fail(const Status& status) {
  // Only the first of several errors counts.
  if (done_) std::exchange(done_, nullptr)(status);
}

void QsdpStep::Apply(const ApplyOrder&, std::function<void(Status)> done) {
  std::vector<std::shared_ptr<Staged>> staged;
  for (Group& group : groups_) {
    group.small->Commit();
    for (Lane& lane : group.lanes) {
      lane.exchange->Commit();
      staged.push_back(std::exchange(lane.staged, nullptr));
    }
  }
  began_ = true;
  applied_ = std::move(done);
  auto apply = [model = core_->deps.model, staged = std::move(staged)] {
    for (const auto& one : staged) SHOAL_RETURN_IF_ERROR(ApplyStaged(model, one.get()));
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(core_->deps.compute, "weights.apply", std::move(apply), [this](const Status& status) {
    if (!status.ok() || !order_.checkpoint || groups_.empty()) return FinishApply(status);
    GatherMoments();
  });
}

void QsdpStep::GatherMoments() {
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    std::vector<ShardedVector> vectors;
    for (const Lane& lane : group.lanes) {
      const std::shared_ptr<optimizer::AdamWShard> shard(lane.piece, &lane.piece->shard);
      vectors.push_back({lane.piece->part, lane.piece->shards, shard});
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
  std::uint64_t values = 0;
  for (const Group& group : groups_) {
    for (const Lane& lane : group.lanes) {
      const bool base = lane.quantised && method_.qsdp.delta;
      values += (base ? 4 : 3) * lane.piece->own.size();
    }
  }
  return values * sizeof(float);
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
