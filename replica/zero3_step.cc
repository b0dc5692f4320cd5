// ZeRO-3: `qsdp` with `shard_parameters=true` (Markov et al., QSDP, ICML 2023), which is FSDP with
// a quantised all-gather of weights and a quantised reduce-scatter of gradients. No member holds
// all parameters or all optimizer state.
//
// While micro-batches run, a UnitPrefetcher gathers the units of parameters that a part needs, by
// one UnitExchange per group, and sends each part's gradients to their owners. Reduce waits until
// the gradients of all members are added up. Apply makes the owners' step with the norm of the
// whole gradient. Weights and moments change in Apply only, and Apply exchanges none: the parts of
// the next step gather the new weights. For a checkpoint, exact weights and moments are gathered
// piece by piece into the model's files.

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "common/task_scope.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/exchange.h"
#include "replica/collective/shard_layout.h"
#include "replica/collective/units/unit_exchange.h"
#include "replica/learned_codecs.h"
#include "replica/methods/qsdp_method.h"
#include "replica/replica_step.h"
#include "replica/units/unit_prefetcher.h"
#include "replica/units/unit_shards.h"

namespace shoal::replica {
namespace {

using collective::UnitVector;
using model::StateVector;

// Channels of a part's group.
enum Channel : std::size_t { kSmall, kUnits, kChannels };
// Rounds of a step on the small one.
enum Round : std::uint64_t { kNorms = 1, kCounts, kRounds };

class Zero3Step final : public ReplicaStep {
 public:
  explicit Zero3Step(const ReplicaContext& context)
      : member_(context.member),
        links_(context.links),
        options_(QsdpOptionsOf(context.method)),
        learn_steps_(options_, context.member->config.steps),
        gate_(context.member, context.units),
        scope_(context.member->control) {}

  Status Init(const ReplicaContext& context);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::uint64_t StateBytes() const override;
  std::string Awaited(const PeerId** peer) const override;
  OperationGate* gate() override {
    SHOAL_ASSERT_ON(*member_->control);
    return &gate_;
  }

 private:
  struct Group {
    explicit Group(const QsdpOptions& options) : codecs(options) {}
    std::shared_ptr<const ParameterGroup> part;
    LearnedCodecs codecs;
    std::unique_ptr<collective::ChannelMux> mux;
    std::unique_ptr<collective::Exchange> small;  // norms and counts
    std::vector<UnitPiece> pieces;
    std::shared_ptr<UnitShards> shards;
    std::unique_ptr<collective::UnitExchange> units;
    double squared_norm = 0;
  };
  // A vector of a piece that a checkpoint wants.
  struct Job {
    Group* group;
    std::size_t piece;
    UnitVector from;
    StateVector to;
  };

  void AddPieces(const ReplicaContext& context, Group* group) const;
  Status OpenGroup(Group* group);
  void Load();
  void ExchangeNorms(Group* group);
  void Applied(bool skipped);
  void ExchangeCounts(Group* group, const compression::LevelHistogram& counts);
  void NextStep();
  void GatherNext();
  void FinishApply(const Status& status);
  void Fail(const Status& status);

  Member* const member_;
  const GroupLinks* const links_;
  const QsdpOptions options_;
  LearnSteps learn_steps_;
  UnitPrefetcher gate_;
  std::deque<Group> groups_;
  ReduceOrder order_;
  std::size_t groups_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::function<void(Status)> applied_;       // null: no Apply is
  std::deque<Job> jobs_;
  TaskScope scope_;  // last: its tasks use what is above
};

Status Zero3Step::Init(const ReplicaContext& context) {
  SHOAL_ASSERT_ON(*member_->control);
  if (context.units.units.empty()) {
    return FailedPrecondition("shard_parameters=true needs a stage that holds them unit by unit");
  }
  for (const auto& part : context.parts) {
    Group& group = groups_.emplace_back(options_);
    group.part = part;
    AddPieces(context, &group);
    SHOAL_RETURN_IF_ERROR(OpenGroup(&group));
    gate_.AddGroup(group.units.get(), group.pieces);
  }
  Load();
  return Status::Ok();
}

// What stages share are units of their own, so a unit belongs to one group.
void Zero3Step::AddPieces(const ReplicaContext& context, Group* group) const {
  const auto own = [&](const model::TensorLayout& tensor) {
    const auto is_it = [&](const model::TensorLayout& other) { return other.name == tensor.name; };
    return std::any_of(group->part->tensors.begin(), group->part->tensors.end(), is_it);
  };
  for (std::size_t number = 0; number < context.units.units.size(); ++number) {
    const model::UnitLayout& unit = context.units.units[number];
    for (const bool coded : {true, false}) {
      std::vector<model::TensorLayout> tensors;
      for (const model::TensorLayout& tensor : context.layout) {
        const bool inside = tensor.offset >= unit.first && tensor.offset < unit.first + unit.values;
        const bool large = tensor.shape.size() >= 2 && tensor.size >= options_.raw_below;
        if (inside && large == coded && own(tensor)) tensors.push_back(tensor);
      }
      if (tensors.empty()) continue;
      group->pieces.push_back(
          {number, coded, MakeParameterGroup(tensors, group->part->channel, group->part->copies)});
    }
  }
}

Status Zero3Step::OpenGroup(Group* group) {
  group->mux = std::make_unique<collective::ChannelMux>(
      group->part->channel, kChannels, [this](const Status& status) {
        member_->fail(status.WithContext("inside the stage group"), nullptr);
      });
  collective::ExchangeConfig small;
  small.row = 1;
  small.epoch = member_->config.generation;
  SHOAL_ASSIGN_OR_RETURN(group->small,
                         collective::NewDirectExchange(small, group->mux->channel(kSmall),
                                                       member_->control, member_->compute));
  collective::UnitExchangeConfig config;
  config.weight_codec = group->codecs.weights();
  config.gradient_codec = group->codecs.gradients();
  config.row = options_.bucket;
  config.alike = !group->part->shared();  // stages have the same tensor's gradients in other sizes
  config.seed = member_->config.seed;
  config.epoch = member_->config.generation;
  const std::vector<double> shares(group->part->channel->size(), 1.0);
  std::vector<collective::UnitPiece> pieces;
  std::vector<collective::ValueRange> own;
  for (const UnitPiece& piece : group->pieces) {
    pieces.push_back({piece.part->values, piece.coded});
    own.push_back(
        collective::ShardLayout(piece.part->values, shares, config.row, config.chunk_values)
            .shard(group->part->channel->rank()));
  }
  group->shards = std::make_shared<UnitShards>(group->pieces, own);
  collective::UnitExchange::Handlers handlers;
  handlers.on_complete = [this, group] { ExchangeNorms(group); };
  handlers.on_room = [this] { gate_.OnRoom(); };
  handlers.on_error = [this](const Status& status) {
    member_->fail(status.WithContext("inside the stage group"), nullptr);
  };
  SHOAL_ASSIGN_OR_RETURN(
      group->units, collective::UnitExchange::Make(
                        config, std::move(pieces), group->mux->channel(kUnits), member_->control,
                        member_->compute, member_->codec, group->shards, std::move(handlers)));
  return Status::Ok();
}

void Zero3Step::Load() {
  std::vector<std::shared_ptr<UnitShards>> shards;
  for (const Group& group : groups_) shards.push_back(group.shards);
  auto load = [model = member_->model, shards = std::move(shards)] {
    for (const auto& one : shards) SHOAL_RETURN_IF_ERROR(one->Load(model));
    return Status::Ok();
  };
  scope_.Run(member_->compute, "shards.load", std::move(load), [this](const Status& status) {
    if (!status.ok()) return member_->fail(status.WithContext("the stage's shards"), nullptr);
    for (Group& group : groups_) group.units->SetStep(member_->config.resume_step);
    gate_.Open();
  });
}

void Zero3Step::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  if (order.pipelines.size() != member_->config.pipelines) {
    const Status refused = FailedPrecondition(
        "with shard_parameters=true all pipelines count in a step: gradients are added up before "
        "its end");
    return scope_.Post("units.refused", [this, refused] { Fail(refused); });
  }
  groups_left_ = groups_.size();
  // Behind the last gradients that are taken.
  scope_.Run(
      member_->compute, "gradients.all", [] { return true; },
      [this](bool) {
        for (Group& group : groups_) group.units->End();
      });
}

// Every member knows the norm of its shards only.
void Zero3Step::ExchangeNorms(Group* group) {
  SHOAL_ASSERT_ON(*member_->control);
  member_->progress();
  auto square = [shards = group->shards] { return shards->SquaredNorm(); };
  scope_.Run(member_->compute, "gradients.norm", std::move(square), [this, group](double sum) {
    collective::ExchangeRequest request;
    request.round = order_.step * kRounds + kNorms;
    request.weights.assign(group->part->channel->size(), 1);
    request.op = collective::CollectiveOp::kAllGather;
    request.count = group->part->channel->size();  // one each
    request.transform = [norm = static_cast<float>(std::sqrt(sum))](std::size_t,
                                                                    std::span<float> values) {
      std::ranges::fill(values, norm);
      return Status::Ok();
    };
    group->small->Start(std::move(request), [this, group](const Result<Buffer>& norms) {
      if (!norms.ok()) return Fail(norms.status());
      // What stages share counts on the first of them, as its gradient does.
      const bool counts = !group->part->shared() || member_->first_stage();
      group->squared_norm = counts ? optimizer::SumOfSquares(norms->floats()) : 0;
      if (--groups_left_ > 0 || !done_) return;
      double squared = 0;
      for (const Group& one : groups_) squared += one.squared_norm;
      std::exchange(done_, nullptr)(squared);
    });
  });
}

void Zero3Step::Fail(const Status& status) {
  if (done_) std::exchange(done_, nullptr)(status);
}

void Zero3Step::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  applied_ = std::move(done);
  optimizer::AdamWOptions options = OptimizerOptionsOf(*member_, order.step);
  options.learning_rate = order.learning_rate;
  options.gradient_factor =
      optimizer::ClipFactor(member_->model->options().optimizer.clip_norm, order.global_norm) /
      static_cast<double>(order.labels);
  std::vector<std::shared_ptr<UnitShards>> shards;
  for (Group& group : groups_) {
    group.small->Commit();
    shards.push_back(group.shards);
  }
  auto apply = [model = member_->model, shards = std::move(shards), options, skip = order.skip] {
    for (const auto& one : shards) skip ? one->Drop() : one->Apply(options);
    model->ZeroGradients();
    return true;
  };
  scope_.Run(member_->compute, "shards.apply", std::move(apply),
             [this, skip = order.skip](bool) { Applied(skip); });
}

void Zero3Step::Applied(bool skipped) {
  gate_.Reset();
  const bool learns = learn_steps_.At(order_.step) && !skipped;
  skipped ? learn_steps_.Skipped(order_.step) : learn_steps_.Applied();
  if (!learns) return NextStep();
  groups_left_ = groups_.size();
  for (Group& group : groups_) {
    auto count = [shards = group.shards, bucket = options_.bucket] {
      return shards->Counts(bucket);
    };
    scope_.Run(member_->compute, "weights.count", std::move(count),
               [this, group = &group](const compression::LevelHistogram& counts) {
                 ExchangeCounts(group, counts);
               });
  }
}

// Of weights alone.
void Zero3Step::ExchangeCounts(Group* group, const compression::LevelHistogram& counts) {
  member_->progress();
  auto values = std::make_shared<Buffer>(2 * sizeof(counts));
  std::ranges::fill(values->floats(), 0.0F);
  std::ranges::copy(counts, values->floats().begin() + compression::kLevelBins);
  collective::ExchangeRequest request;
  request.round = order_.step * kRounds + kCounts;
  request.weights.assign(group->part->channel->size(), 1);
  request.values = std::move(values);
  group->small->Start(std::move(request), [this, group](const Result<Buffer>& sums) {
    if (!sums.ok()) return FinishApply(sums.status());
    group->small->Commit();
    Status status = group->codecs.Learn(sums->floats());
    if (status.ok()) status = group->units->SetWeightCodec(group->codecs.weights());
    if (!status.ok()) return FinishApply(status);
    if (--groups_left_ == 0) NextStep();
  });
}

void Zero3Step::NextStep() {
  for (Group& group : groups_) group.units->SetStep(order_.step + 1);
  if (!order_.checkpoint) return FinishApply(Status::Ok());
  for (Group& group : groups_) {
    for (std::size_t piece = 0; piece < group.pieces.size(); ++piece) {
      jobs_.push_back({&group, piece, UnitVector::kExactWeights, StateVector::kWeights});
      jobs_.push_back({&group, piece, UnitVector::kFirstMoment, StateVector::kFirstMoment});
      jobs_.push_back({&group, piece, UnitVector::kSecondMoment, StateVector::kSecondMoment});
    }
  }
  GatherNext();
}

void Zero3Step::GatherNext() {
  member_->progress();
  if (jobs_.empty()) return FinishApply(Status::Ok());
  const Job job = jobs_.front();
  jobs_.pop_front();
  CountGathered(job.group->units->layout(job.piece), job.group->part->channel->rank(),
                &member_->stats.replica);
  job.group->units->Pull(job.from, job.piece, [this, job](Buffer values) {
    auto write = [model = member_->model, job, part = job.group->pieces[job.piece].part,
                  values = std::make_shared<const Buffer>(std::move(values))] {
      return WriteParameters(model, job.to, *part, values->floats());
    };
    scope_.Run(member_->compute, "shards.write", std::move(write), [this](const Status& status) {
      if (!status.ok()) return FinishApply(status);
      GatherNext();
    });
  });
}

void Zero3Step::FinishApply(const Status& status) {
  if (applied_) std::exchange(applied_, nullptr)(status);
}

std::uint64_t Zero3Step::StateBytes() const {
  SHOAL_ASSERT_ON(*member_->control);
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.shards->bytes();
  return bytes;
}

std::string Zero3Step::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  for (const Group& group : groups_) {
    std::vector<std::size_t> members = group.units->Awaited();
    if (members.empty()) members = group.small->Awaited();
    std::string text =
        AwaitedText(*links_, *group.part->channel, members, "parameters or gradients", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewZero3Step(ReplicaContext context) {
  auto step = std::make_unique<Zero3Step>(context);
  SHOAL_RETURN_IF_ERROR(step->Init(context));
  return std::unique_ptr<ReplicaStep>(std::move(step));
}

}  // namespace shoal::replica
