// Local steps with any method (DiLoCo: Douillard et al., "DiLoCo: distributed low-communication
// training of language models", 2023). Every pipeline steps with its own gradients and keeps its
// own moments. In a sync step the group agrees on the mean distance of the members from the
// parameters that they had in common. Nesterov momentum on that mean moves the common parameters,
// and everybody goes on from there.
//
// The copies in one pipeline of tensors that stages share must move alike, so in every step they
// agree on the sum of their gradients. If differences are not exact, the sum's codec need only be
// right on average.
//
// Members that keep their stage go on with the parameters in common, and their momentum, in the
// next generation, which may have fewer pipelines; with as many also with what they have not sent.
//
// A sync step that is skipped syncs all the same, in Apply and without own steps: replicas that a
// checkpoint takes, or that are compared, are equal then.

#include <algorithm>
#include <utility>

#include "common/task_scope.h"
#include "optimizer/adamw.h"
#include "optimizer/nesterov.h"
#include "replica/collective/exchange.h"
#include "replica/replica_step.h"
#include "replica/state/error_keeper.h"

namespace shoal::replica {
namespace {

using model::StateVector;

constexpr std::string_view kDifferences = "differences";

// A sync's round, and the one of a step that is skipped.
constexpr std::uint64_t kRoundsPerStep = 2;

using SharedVector = std::shared_ptr<const Buffer>;  // fp32

// What all members have in common of a part: parameters, and momentum of their steps (null: zeros).
struct Common {
  SharedVector values, momentum;
};

struct LocalGroup {
  std::shared_ptr<const ParameterGroup> part;
  std::unique_ptr<collective::Exchange> differences;
  Common common;  // as of the last sync; values are null before the first step
  Common next;    // of the running step, if it is one; else null
};

// How the pipeline's own step ends: `options` of the optimizer; not at all if it does not count.
struct OwnStep {
  bool counts = false;
  optimizer::AdamWOptions options;
};

// (common parameters - own ones after the own step) x scale. Thread: compute.
Result<Buffer> Difference(model::StageModel* model, const ParameterGroup& part,
                          const Buffer& common, const OwnStep& own, float scale,
                          GradientMark* mark) {
  const std::size_t bytes = part.values * sizeof(float);
  Buffer weights(bytes);
  SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kWeights, part, weights.floats()));
  if (own.counts) {
    optimizer::AdamWOptions undecayed = own.options;
    undecayed.weight_decay = 0;
    const optimizer::AdamWStep with_decay = optimizer::MakeAdamWStep(own.options);
    const optimizer::AdamWStep without = optimizer::MakeAdamWStep(undecayed);
    Buffer gradient(bytes), first(bytes), second(bytes);
    SHOAL_RETURN_IF_ERROR(ReadGradients(model, part, gradient.floats(), mark));
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kFirstMoment, part, first.floats()));
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kSecondMoment, part, second.floats()));
    for (const model::TensorLayout& tensor : part.tensors) {
      const auto of = [&tensor](auto span) { return span.subspan(tensor.offset, tensor.size); };
      optimizer::AdamWUpdate(tensor.shape.size() >= 2 ? with_decay : without,
                             of(std::as_const(gradient).floats()), of(weights.floats()),
                             of(first.floats()), of(second.floats()));
    }
  }
  const std::span<float> out = weights.floats();
  const std::span<const float> from = common.floats();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (from[i] - out[i]) * scale;
  return weights;
}

// Thread: compute.
Common Moved(const Common& common, const Buffer& mean, const LocalSteps& local) {
  const std::size_t bytes = mean.size();
  Buffer values = Buffer::CopyOf(common.values->bytes()), momentum(bytes);
  if (common.momentum != nullptr) {
    std::ranges::copy(common.momentum->floats(), momentum.floats().begin());
  } else {
    std::ranges::fill(momentum.floats(), 0.0F);
  }
  optimizer::NesterovUpdate(static_cast<float>(local.outer_rate),
                            static_cast<float>(local.outer_momentum), mean.floats(),
                            values.floats(), momentum.floats());
  return {std::make_shared<const Buffer>(std::move(values)),
          std::make_shared<const Buffer>(std::move(momentum))};
}

class LocalStep final : public ReplicaStep {
 public:
  explicit LocalStep(const ReplicaContext& context)
      : member_(context.member),
        links_(context.links),
        local_(context.method.local),
        scope_(member_->control) {}

  Status Init(const ReplicaContext& context);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  void Abandon() override;
  void KeepErrors(ErrorKeeper* keeper) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  Status Adopt(LocalGroup* part);
  std::size_t MembersOf(const ParameterGroup& part) const;
  OwnStep OwnStepOf(double learning_rate) const;
  void ReadCommon();
  void ExchangeEnds();
  void OnEnds(const std::shared_ptr<const ParameterGroup>& part, Result<Buffer> sum);
  void AgreeOrEnd();
  void AgreeOnAll();
  void Agree(LocalGroup* part);
  void OnMean(LocalGroup* part, Result<Buffer> mean);
  double SquaredNorm() const;
  void Finish(Result<double> norm);
  void ApplyAgreed();

  Member* const member_;
  const GroupLinks* const links_;
  const LocalSteps local_;
  std::vector<LocalGroup> parts_;
  std::unique_ptr<collective::Exchange> ends_;  // of shared tensors' gradients; null: none are
  ReduceOrder order_;
  std::size_t parts_left_ = 0;
  bool skip_ = false;                         // the step, as Apply says
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::function<void(Status)> applied_;       // null: no Apply is
  TaskScope scope_;                           // last: its tasks use what is above
};

Status LocalStep::Init(const ReplicaContext& context) {
  SHOAL_ASSERT_ON(*member_->control);
  for (const auto& part : context.parts) {
    LocalGroup made;
    made.part = part;
    GroupExchangeOptions options;
    options.rounds_per_step = kRoundsPerStep;
    SHOAL_ASSIGN_OR_RETURN(made.differences,
                           NewGroupExchange(*member_, context.method, *part, options));
    SHOAL_RETURN_IF_ERROR(Adopt(&made));
    parts_.push_back(std::move(made));
    if (!part->shared()) continue;
    collective::ExchangeConfig exchange;
    exchange.codec = local_.ends_codec;
    exchange.row = kReplicaRow;
    exchange.seed = ~member_->config.seed;  // no random number twice
    exchange.epoch = member_->config.generation;
    exchange.early_bytes_max += 2 * sizeof(float) * part->values;
    SHOAL_ASSIGN_OR_RETURN(
        ends_, collective::NewDirectExchange(exchange, links_->shared_ends(), member_->control,
                                             member_->compute));
  }
  return Status::Ok();
}

// What was not sent is in the unit of a mean over so many members.
Status LocalStep::Adopt(LocalGroup* part) {
  if (member_->errors == nullptr) return Status::Ok();
  KeptVector kept = member_->errors->Take(VectorName(kDifferences, *part->part));
  part->common = {std::move(kept.common), std::move(kept.common_momentum)};
  if (kept.members == MembersOf(*part->part)) part->differences->Adopt(std::move(kept.errors));
  // The own parameters, which are read where there are none in common yet, may be others since.
  if (member_->errors->used() && kept.members == 0) {
    return FailedPrecondition("this peer does not know any more what its group had in common");
  }
  return Status::Ok();
}

void LocalStep::KeepErrors(ErrorKeeper* keeper) {
  SHOAL_ASSERT_ON(*member_->control);
  for (LocalGroup& part : parts_) {
    KeptVector kept;
    kept.errors = part.differences->TakeErrors();
    kept.members = MembersOf(*part.part);
    kept.common = std::move(part.common.values);
    kept.common_momentum = std::move(part.common.momentum);
    keeper->Keep(VectorName(kDifferences, *part.part), std::move(kept));
  }
}

std::size_t LocalStep::MembersOf(const ParameterGroup& part) const {
  return std::size_t{member_->config.pipelines} * part.copies;
}

// Of the order's step.
OwnStep LocalStep::OwnStepOf(double learning_rate) const {
  const std::uint32_t pipeline = member_->config.pipeline;
  const std::uint64_t labels = order_.local_labels[pipeline];
  OwnStep own;
  own.counts =
      labels > 0 && std::ranges::find(order_.pipelines, pipeline) != order_.pipelines.end();
  if (!own.counts) return own;
  own.options = OptimizerOptionsOf(*member_, order_.step);
  own.options.learning_rate = learning_rate;
  own.options.gradient_factor = optimizer::ClipFactor(member_->model->options().optimizer.clip_norm,
                                                      order_.local_norms[pipeline]) /
                                static_cast<double>(labels);
  return own;
}

void LocalStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  skip_ = false;
  for (LocalGroup& part : parts_) {
    part.next = {};
    // What the method would send in every step, without a codec.
    const std::vector<std::uint64_t> weights = GroupWeights(*part.part, order.pipelines);
    CountRaw(*part.part, weights, part.part->values, &member_->stats.replica,
             SharesOfGroup(*member_, *part.part, weights));
  }
  ReadCommon();
}

// The parameters that a generation begins with are the first in common.
void LocalStep::ReadCommon() {
  if (parts_.empty() || parts_.front().common.values != nullptr) return ExchangeEnds();
  std::vector<std::shared_ptr<const ParameterGroup>> parts;
  for (const LocalGroup& part : parts_) parts.push_back(part.part);
  auto read = [model = member_->model, parts]() -> Result<std::vector<SharedVector>> {
    std::vector<SharedVector> vectors;
    for (const auto& part : parts) {
      Buffer values(part->values * sizeof(float));
      SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kWeights, *part, values.floats()));
      vectors.push_back(std::make_shared<const Buffer>(std::move(values)));
    }
    return vectors;
  };
  scope_.Run(member_->compute, "common.read", std::move(read),
             [this](Result<std::vector<SharedVector>> vectors) {
               if (!vectors.ok()) return Finish(vectors.status());
               for (std::size_t i = 0; i < parts_.size(); ++i) {
                 parts_[i].common.values = std::move((*vectors)[i]);
               }
               ExchangeEnds();
             });
}

void LocalStep::ExchangeEnds() {
  if (ends_ == nullptr || !OwnStepOf(0).counts) return AgreeOrEnd();
  const auto part = parts_.back().part;  // the shared one
  auto read = [model = member_->model, part, mark = member_->mark]() -> Result<Buffer> {
    Buffer values(part->values * sizeof(float));
    SHOAL_RETURN_IF_ERROR(ReadGradients(model, *part, values.floats(), mark.get()));
    return values;
  };
  scope_.Run(member_->compute, "ends.read", std::move(read), [this, part](Result<Buffer> own) {
    if (!own.ok()) return Finish(own.status());
    member_->progress();
    collective::ExchangeRequest request;
    request.round = order_.step + 1;
    request.weights.assign(part->copies, 1);
    request.values = std::make_shared<const Buffer>(std::move(*own));
    ends_->Start(std::move(request),
                 [this, part](Result<Buffer> sum) { OnEnds(part, std::move(sum)); });
  });
}

void LocalStep::OnEnds(const std::shared_ptr<const ParameterGroup>& part, Result<Buffer> sum) {
  SHOAL_ASSERT_ON(*member_->control);
  if (!sum.ok()) return Finish(sum.status());
  member_->progress();
  auto write = [model = member_->model, part, sum = std::move(*sum)] {
    return WriteParameters(model, StateVector::kGradients, *part, sum.floats());
  };
  scope_.Run(member_->compute, "ends.write", std::move(write), [this](const Status& status) {
    if (!status.ok()) return Finish(status);
    AgreeOrEnd();
  });
}

void LocalStep::AgreeOrEnd() {
  if (!order_.sync || parts_.empty()) {
    return scope_.Post("local.end", [this] { Finish(SquaredNorm()); });
  }
  AgreeOnAll();
}

void LocalStep::AgreeOnAll() {
  parts_left_ = parts_.size();
  for (LocalGroup& part : parts_) Agree(&part);
}

void LocalStep::Agree(LocalGroup* part) {
  // All differences add up to their mean.
  const auto members = static_cast<double>(order_.pipelines.size() * part->part->copies);
  auto difference = [model = member_->model, of = part->part, common = part->common.values,
                     own = skip_ ? OwnStep{} : OwnStepOf(order_.learning_rate),
                     scale = static_cast<float>(1 / members), mark = member_->mark] {
    return Difference(model, *of, *common, own, scale, mark.get());
  };
  scope_.Run(member_->compute, "local.difference", std::move(difference),
             [this, part](Result<Buffer> values) {
               if (!values.ok()) return Finish(values.status());
               member_->progress();
               collective::ExchangeRequest request;
               request.round = order_.step * kRoundsPerStep + (skip_ ? 2 : 1);
               request.weights = GroupWeights(*part->part, order_.pipelines);
               request.shares = SharesOfGroup(*member_, *part->part, request.weights);
               request.values = std::make_shared<const Buffer>(std::move(*values));
               request.alike = !part->part->shared();
               part->differences->Start(std::move(request), [this, part](Result<Buffer> mean) {
                 OnMean(part, std::move(mean));
               });
             });
}

void LocalStep::OnMean(LocalGroup* part, Result<Buffer> mean) {
  SHOAL_ASSERT_ON(*member_->control);
  if (!mean.ok()) return Finish(mean.status());
  member_->progress();
  auto move = [common = part->common, mean = std::move(*mean), local = local_] {
    return Moved(common, mean, local);
  };
  scope_.Run(member_->compute, "local.outer", std::move(move), [this, part](Common next) {
    if (parts_left_ == 0) return;  // the step is abandoned
    part->next = std::move(next);
    if (--parts_left_ > 0) return;
    skip_ ? ApplyAgreed() : Finish(SquaredNorm());
  });
}

// No gradient is agreed on: the mean of the pipelines' squared norms stands for one, which every
// member knows, and which the first stage tells for all stages.
double LocalStep::SquaredNorm() const {
  if (!member_->first_stage()) return 0;
  double sum = 0;
  for (const std::uint32_t pipeline : order_.pipelines) {
    sum += order_.local_norms[pipeline] * order_.local_norms[pipeline];
  }
  const auto labels = static_cast<double>(order_.labels);
  return sum / static_cast<double>(order_.pipelines.size()) * labels * labels;
}

void LocalStep::Finish(Result<double> norm) {
  // Only the first of several errors counts.
  if (done_) return std::exchange(done_, nullptr)(std::move(norm));
  if (!norm.ok() && applied_) std::exchange(applied_, nullptr)(norm.status());
}

void LocalStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  applied_ = std::move(done);
  skip_ = order.skip;
  if (!skip_ || !order_.sync || parts_.empty()) return ApplyAgreed();
  for (LocalGroup& part : parts_) {
    part.differences->Rollback();
    part.next = {};
  }
  AgreeOnAll();
}

void LocalStep::Abandon() {
  SHOAL_ASSERT_ON(*member_->control);
  if (!applied_ || parts_left_ == 0) return;  // it waits for nobody
  parts_left_ = 0;
  scope_.Post("local.abandoned", [this] {
    if (!applied_) return;
    std::exchange(applied_, nullptr)(Unavailable("the generation ended in the midst of a sync"));
  });
}

void LocalStep::ApplyAgreed() {
  std::vector<std::pair<std::shared_ptr<const ParameterGroup>, SharedVector>> agreed;
  for (LocalGroup& part : parts_) {
    if (part.next.values == nullptr) continue;
    part.differences->Commit();
    part.common = std::exchange(part.next, {});
    agreed.emplace_back(part.part, part.common.values);
  }
  const std::uint32_t pipeline = member_->config.pipeline;
  auto apply = [model = member_->model, step = order_.step, rate = order_.learning_rate,
                counts = !skip_ && OwnStepOf(0).counts, labels = order_.local_labels[pipeline],
                norm = order_.local_norms[pipeline], agreed = std::move(agreed)] {
    if (counts) {
      // In a sync step for the moments; what becomes of the parameters is replaced.
      SHOAL_RETURN_IF_ERROR(model->Apply(step, 1.0 / static_cast<double>(labels), norm, rate));
    }
    model->ZeroGradients();
    for (const auto& [part, values] : agreed) {
      SHOAL_RETURN_IF_ERROR(WriteParameters(model, StateVector::kWeights, *part, values->floats()));
    }
    return Status::Ok();
  };
  scope_.Run(member_->compute, "local.apply", std::move(apply), [this](const Status& status) {
    if (applied_) std::exchange(applied_, nullptr)(status);
  });
}

std::string LocalStep::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  std::string text;
  if (ends_ != nullptr) {
    text = AwaitedText(*links_, *links_->shared_ends(), ends_->Awaited(), "shared gradients", peer);
  }
  for (const LocalGroup& part : parts_) {
    if (!text.empty()) break;
    text =
        AwaitedText(*links_, *part.part->channel, part.differences->Awaited(), "parameters", peer);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewLocalStep(ReplicaContext context) {
  return MakeReplicaStep<LocalStep>(context);
}

}  // namespace shoal::replica
