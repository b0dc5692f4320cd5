// The methods that agree on momenta, `qadam` and `onebit`: gradients, exact, while the variance
// warms up; then every member folds its own gradient into the momentum all have, and the group
// agrees on the mean of these, quantised with error feedback at both ends, while the variance is
// frozen (1-bit Adam: Tang et al., ICML 2021; AQ-SGD, section on gradient compression).
//
// The step's clipping cannot wait for the norm of a gradient that nobody computes: every pipeline
// clips by the norm of its own, in all steps, so that the variance is one of such gradients.

#include <algorithm>
#include <utility>

#include "collective/channel_mux.h"
#include "collective/exchange.h"
#include "optimizer/adamw.h"
#include "pipeline/replica_step.h"

namespace shoal::pipeline {
namespace {

using model::StateVector;

// Channels of a part's group.
enum Channel : std::size_t { kExact, kCompressed, kChannels };

// A part and its two exchanges, which are never in use at the same time.
struct MomentumPart {
  std::shared_ptr<const ReplicaPart> part;
  std::unique_ptr<collective::ChannelMux> mux;
  std::unique_ptr<collective::Exchange> exact, compressed;
  std::shared_ptr<const Buffer> agreed;  // momentum of the running step; null: gradients are agreed
};

// The new parameters of a part from its agreed momentum, or, if there is none, from the agreed
// gradients, by which momentum and variance move on, too. Thread: compute.
Status ApplyPart(model::StageModel* model, const ReplicaPart& part, const Buffer* agreed,
                 const optimizer::AdamWOptions& options, std::uint64_t variance_updates) {
  optimizer::AdamWOptions undecayed = options;
  undecayed.weight_decay = 0;
  const optimizer::AdamWStep with_decay = optimizer::MakeFrozenStep(options, variance_updates);
  const optimizer::AdamWStep without = optimizer::MakeFrozenStep(undecayed, variance_updates);
  const std::size_t bytes = part.values * sizeof(float);
  Buffer weights(bytes), variance(bytes), momentum, gradient;
  SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kWeights, part, weights.floats()));
  SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kSecondMoment, part, variance.floats()));
  if (agreed == nullptr) {
    momentum = Buffer(bytes);
    gradient = Buffer(bytes);
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kFirstMoment, part, momentum.floats()));
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, part, gradient.floats()));
  }
  for (const model::TensorLayout& tensor : part.tensors) {
    const auto of = [&tensor](auto span) { return span.subspan(tensor.offset, tensor.size); };
    const optimizer::AdamWStep& step = tensor.shape.size() >= 2 ? with_decay : without;
    if (agreed != nullptr) {
      optimizer::FrozenUpdate(step, of(agreed->floats()), of(std::as_const(variance).floats()),
                              of(weights.floats()));
    } else {
      optimizer::AdamWUpdate(step, of(std::as_const(gradient).floats()), of(weights.floats()),
                             of(momentum.floats()), of(variance.floats()));
    }
  }
  if (agreed == nullptr) {
    SHOAL_RETURN_IF_ERROR(WritePart(model, StateVector::kSecondMoment, part, variance.floats()));
  }
  SHOAL_RETURN_IF_ERROR(
      WritePart(model, StateVector::kFirstMoment, part,
                (agreed != nullptr ? *agreed : std::as_const(momentum)).floats()));
  return WritePart(model, StateVector::kWeights, part, weights.floats());
}

class MomentumStep final : public ReplicaStep {
 public:
  explicit MomentumStep(const ReplicaContext& context)
      : core_(context.core),
        links_(context.links),
        method_(context.method),
        schedule_{context.method.StartOf(context.core->config.steps), context.method.refresh},
        scope_(core_->deps.control) {}

  Status Init(const ReplicaContext& context);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  collective::Exchange* ExchangeOf(const MomentumPart& part) const {
    return exact_ ? part.exact.get() : part.compressed.get();
  }
  void Exchange(MomentumPart* part, Buffer values);
  void OnPart(MomentumPart* part, Result<Buffer> agreed);
  void OnGradients(const MomentumPart& part, Buffer sum);
  void OnMomentum(MomentumPart* part, Buffer mean);
  void FinishPart(double squared);
  void Fail(const Status& status);

  RunnerCore* const core_;
  const GroupLinks* const links_;
  const compression::ReplicaMethod method_;
  const optimizer::VarianceSchedule schedule_;
  std::vector<MomentumPart> parts_;
  ReduceOrder order_;
  bool exact_ = true;  // the running step agrees on gradients
  double squared_norm_ = 0;
  std::size_t parts_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  TaskScope scope_;                           // last: its tasks use what is above
};

Status MomentumStep::Init(const ReplicaContext& context) {
  for (const auto& part : context.parts) {
    collective::ExchangeConfig exchange;
    exchange.row = compression::kReplicaRow;
    exchange.seed = core_->config.seed;
    exchange.epoch = core_->config.generation;
    exchange.early_bytes_max += 2 * sizeof(float) * part->values;
    MomentumPart made;
    made.mux = std::make_unique<collective::ChannelMux>(
        part->channel, kChannels, [core = core_](const Status& status) {
          core->fail(status.WithContext("inside the stage group"), nullptr);
        });
    SHOAL_ASSIGN_OR_RETURN(made.exact,
                           collective::NewDirectExchange(exchange, made.mux->channel(kExact),
                                                         core_->deps.control, core_->deps.compute));
    exchange.codec = method_.codec;
    exchange.error_feedback = method_.feedback;
    SHOAL_ASSIGN_OR_RETURN(made.compressed,
                           collective::NewDirectExchange(exchange, made.mux->channel(kCompressed),
                                                         core_->deps.control, core_->deps.compute));
    made.part = part;
    parts_.push_back(std::move(made));
  }
  return Status::Ok();
}

void MomentumStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  exact_ = optimizer::UpdatesVariance(schedule_, order.step);
  squared_norm_ = 0;
  parts_left_ = parts_.size();
  const double clip = optimizer::ClipFactor(core_->deps.model->options().optimizer.clip_norm,
                                            order.local_norms[core_->config.pipeline]);
  const auto members = static_cast<double>(order.pipelines.size());
  for (MomentumPart& part : parts_) {
    part.agreed.reset();
    // Gradients are summed over the members; of momenta the mean is taken, so a member's own
    // stands for all of them there, and one of two ends for both.
    const double factor =
        exact_ ? clip : clip * members * part.part->ends / static_cast<double>(order.labels);
    auto read = [model = core_->deps.model, from = part.part, exact = exact_,
                 options = OptimizerOptionsOf(*core_, order.step),
                 factor]() mutable -> Result<Buffer> {
      Buffer gradient(from->values * sizeof(float));
      SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, *from, gradient.floats()));
      options.gradient_factor = factor;
      if (exact) {
        const auto scale = static_cast<float>(factor);
        for (float& value : gradient.floats()) value *= scale;
        return gradient;
      }
      Buffer momentum(gradient.size());
      SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kFirstMoment, *from, momentum.floats()));
      optimizer::FoldMomentum(optimizer::MakeAdamWStep(options), gradient.floats(),
                              momentum.floats());
      return momentum;
    };
    scope_.Run(core_->deps.compute, "momentum.fold", std::move(read),
               [this, to = &part](Result<Buffer> values) {
                 if (!values.ok()) return Fail(values.status());
                 Exchange(to, std::move(*values));
               });
  }
}

void MomentumStep::Exchange(MomentumPart* part, Buffer values) {
  core_->Progress();
  collective::ExchangeRequest request;
  request.round = order_.step + 1;
  request.weights = PartWeights(*part->part, order_.pipelines);
  request.combine = exact_ ? collective::Combine::kSum : collective::Combine::kWeightedMean;
  request.shares = SharesOfPart(*core_, *part->part, request.weights);
  CountRaw(*part->part, request.weights, part->part->values, &core_->stats.replica, request.shares);
  request.values = std::make_shared<const Buffer>(std::move(values));
  ExchangeOf(*part)->Start(
      std::move(request), [this, part](Result<Buffer> agreed) { OnPart(part, std::move(agreed)); });
}

void MomentumStep::OnPart(MomentumPart* part, Result<Buffer> agreed) {
  if (!agreed.ok()) return Fail(agreed.status());
  core_->Progress();
  if (exact_) return OnGradients(*part, std::move(*agreed));
  OnMomentum(part, std::move(*agreed));
}

void MomentumStep::OnGradients(const MomentumPart& part, Buffer sum) {
  auto write = [model = core_->deps.model, to = part.part,
                sum = std::move(sum)]() -> Result<double> {
    SHOAL_RETURN_IF_ERROR(WritePart(model, StateVector::kGradients, *to, sum.floats()));
    return 0.0;
  };
  scope_.Run(core_->deps.compute, "gradients.write", std::move(write),
             [this](Result<double> written) {
               if (!written.ok()) return Fail(written.status());
               if (parts_left_ > 1) return FinishPart(0);
               auto norm = [model = core_->deps.model] { return model->SquaredGradientNorm(1.0); };
               scope_.Run(core_->deps.compute, "gradients.norm", std::move(norm),
                          [this](double squared) { FinishPart(squared); });
             });
}

void MomentumStep::OnMomentum(MomentumPart* part, Buffer mean) {
  part->agreed = std::make_shared<const Buffer>(std::move(mean));
  // The embedding counts on one of its two stages, as its gradient does.
  const bool counts = !part->part->embedding || core_->first_stage();
  // In the unit of a gradient sum.
  const auto labels = static_cast<double>(order_.labels);
  auto norm = [agreed = part->agreed, counts, labels] {
    return counts ? optimizer::SumOfSquares(agreed->floats()) * labels * labels : 0.0;
  };
  scope_.Run(core_->deps.compute, "momentum.norm", std::move(norm),
             [this](double squared) { FinishPart(squared); });
}

void MomentumStep::FinishPart(double squared) {
  squared_norm_ += squared;
  if (--parts_left_ > 0 || !done_) return;
  std::exchange(done_, nullptr)(squared_norm_);
}

void MomentumStep::Fail(const Status& status) {
  // Only the first of several errors counts.
  if (done_) std::exchange(done_, nullptr)(status);
}

void MomentumStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  for (MomentumPart& part : parts_) ExchangeOf(part)->Commit();
  if (exact_ && order.step < schedule_.start) {
    auto apply = [model = core_->deps.model, order] {  // clipped already
      return model->Apply(order.step, 1.0 / static_cast<double>(order.labels), 0,
                          order.learning_rate);
    };
    return scope_.Run(core_->deps.compute, "model.apply", std::move(apply), std::move(done));
  }
  std::vector<std::pair<std::shared_ptr<const ReplicaPart>, std::shared_ptr<const Buffer>>> parts;
  for (MomentumPart& part : parts_) {
    parts.emplace_back(part.part, std::exchange(part.agreed, nullptr));
  }
  optimizer::AdamWOptions options = OptimizerOptionsOf(*core_, order.step);
  options.learning_rate = order.learning_rate;
  options.gradient_factor = 1.0 / static_cast<double>(order.labels);
  auto apply = [model = core_->deps.model, parts = std::move(parts), options,
                updates = optimizer::VarianceUpdates(schedule_, order.step)] {
    for (const auto& [part, momentum] : parts) {
      SHOAL_RETURN_IF_ERROR(ApplyPart(model, *part, momentum.get(), options, updates));
    }
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(core_->deps.compute, "momentum.apply", std::move(apply), std::move(done));
}

std::string MomentumStep::Awaited(const PeerId** peer) const {
  for (const MomentumPart& part : parts_) {
    std::string text =
        AwaitedText(*links_, *part.part->channel, ExchangeOf(part)->Awaited(), "momentum", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewMomentumStep(ReplicaContext context) {
  return MakeReplicaStep<MomentumStep>(context);
}

}  // namespace shoal::pipeline
