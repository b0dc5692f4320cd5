// The method `marsit`: gradients, exact, while the variance warms up; then every member folds its
// own gradient into a momentum of its own, and the group passes the signs of the members' updates
// (that momentum over the frozen variance, plus what signs did not tell before) round a ring, with
// an exact average from time to time ("Sign Bit is Enough", DAC 2022; collective/marsit.h).
//
// What travels is an update in parameter units, per tensor in units of its scale: the mean
// magnitude of Adam's directions over tensor and members at the last exact round. A sign is worth
// `method.scale` of that, times the learning rate.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "collective/marsit_exchange.h"
#include "collective/ring_reduce.h"
#include "optimizer/adamw.h"
#include "pipeline/replica_step.h"

namespace shoal::pipeline {
namespace {

using model::StateVector;

// One per tensor of a part.
using Scales = std::vector<float>;

constexpr std::size_t kTorusMembersMin = 8;  // of RingShape::kAuto

// What a member brings into a round.
struct Folded {
  std::shared_ptr<const Buffer> momentum;
  std::shared_ptr<const Buffer> input;  // null: it does not count in this step
  Buffer magnitudes;                    // mean of directions by tensor; zeros if it does not count
};

struct Update {
  std::shared_ptr<const Buffer> values;  // that parameters lose
  double squared_norm = 0;               // of the momentum that has this update
};

struct MarsitPart {
  std::shared_ptr<const ReplicaPart> part;
  std::unique_ptr<collective::RingReduce> ring;
  std::unique_ptr<collective::MarsitExchange> exchange;
  std::shared_ptr<const Buffer> momentum;  // own; null: as the model has it
  std::shared_ptr<const Scales> scales;
  // Of the running step; what outlives it is adopted by Apply.
  std::shared_ptr<const Buffer> next_momentum, update;
  std::shared_ptr<const Scales> next_scales;
  Buffer magnitudes;
};

std::size_t ColumnsOf(compression::RingShape shape, std::size_t members) {
  const bool torus = shape == compression::RingShape::kTorus ||
                     (shape == compression::RingShape::kAuto && members >= kTorusMembersMin);
  return torus ? collective::SquarestTorusOf(members).columns : 0;
}

// Rows of all matrices: embeddings have rows without any gradient, and a mark per row is little.
std::vector<collective::RowRange> MaskedRows(const ReplicaPart& part) {
  std::vector<collective::RowRange> rows;
  for (const model::TensorLayout& tensor : part.tensors) {
    if (tensor.shape.size() < 2 || tensor.size == 0) continue;
    rows.push_back({tensor.offset, tensor.shape[0], tensor.size / tensor.shape[0]});
  }
  return rows;
}

// Bit r: member r counts.
std::uint64_t Mask(const std::vector<std::uint64_t>& weights) {
  std::uint64_t mask = 0;
  for (std::size_t r = 0; r < weights.size(); ++r) {
    mask |= static_cast<std::uint64_t>(weights[r] > 0) << r;
  }
  return mask;
}

float MeanMagnitude(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::abs(value);
  return values.empty() ? 0 : static_cast<float>(sum / static_cast<double>(values.size()));
}

// The scales from the sums of `members` mean magnitudes. None is 0, nor far below the others': a
// tensor that has hardly moved yet would not get on by signs that are worth nothing.
Result<Scales> ScalesOf(std::span<const float> sums, std::uint32_t members) {
  constexpr float kLeast = 1e-3F;  // of the largest
  const float largest = *std::max_element(sums.begin(), sums.end());
  const bool sound = std::all_of(sums.begin(), sums.end(),
                                 [](float sum) { return std::isfinite(sum) && sum >= 0; });
  if (!sound) {
    return InvalidArgument(
        "the group's magnitudes of updates are not finite; lower the learning rate");
  }
  Scales scales;
  for (const float sum : sums) {
    const float scale = std::max(sum, largest * kLeast) / static_cast<float>(members);
    scales.push_back(scale > std::numeric_limits<float>::min() ? scale : 1.0F);
  }
  return scales;
}

// Thread: compute, as the ones below.
Result<Folded> Fold(model::StageModel* model, const ReplicaPart& part,
                    std::shared_ptr<const Buffer> before, const Scales& scales, bool counts,
                    const optimizer::AdamWStep& step) {
  const std::size_t bytes = part.values * sizeof(float);
  Folded folded;
  folded.magnitudes = Buffer(part.tensors.size() * sizeof(float));
  const std::span<float> magnitudes = folded.magnitudes.floats();
  std::fill(magnitudes.begin(), magnitudes.end(), 0.0F);
  Buffer momentum;
  if (before != nullptr) {
    momentum = Buffer::CopyOf(before->bytes());
  } else {
    momentum = Buffer(bytes);
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kFirstMoment, part, momentum.floats()));
  }
  if (counts) {
    Buffer input(bytes), variance(bytes);
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, part, input.floats()));
    optimizer::FoldMomentum(step, std::as_const(input).floats(), momentum.floats());
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kSecondMoment, part, variance.floats()));
    optimizer::AdamDirection(step, std::as_const(momentum).floats(),
                             std::as_const(variance).floats(), input.floats());
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      const model::TensorLayout& tensor = part.tensors[i];
      const std::span<float> values = input.floats().subspan(tensor.offset, tensor.size);
      magnitudes[i] = MeanMagnitude(values);
      for (float& value : values) value /= scales[i];
    }
    folded.input = std::make_shared<const Buffer>(std::move(input));
  }
  folded.momentum = std::make_shared<const Buffer>(std::move(momentum));
  return folded;
}

// Takes the update out of the units of the scales.
Result<Update> MakeUpdate(model::StageModel* model, const ReplicaPart& part, const Scales& scales,
                          Buffer values, const optimizer::AdamWStep& step, bool counts) {
  Update update;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const model::TensorLayout& tensor = part.tensors[i];
    for (float& value : values.floats().subspan(tensor.offset, tensor.size)) value *= scales[i];
  }
  if (counts && step.step_size > 0) {
    Buffer momentum(values.size());
    const std::span<float> m = momentum.floats();
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kSecondMoment, part, m));
    for (std::size_t i = 0; i < m.size(); ++i) {
      const float denominator = std::sqrt(m[i]) * step.inverse_root_correction2 + step.epsilon;
      m[i] = values.floats()[i] / step.step_size * denominator;
    }
    update.squared_norm = optimizer::SumOfSquares(m);
  }
  update.values = std::make_shared<const Buffer>(std::move(values));
  return update;
}

// `first`: the model's first moment, which all members have, ends here; what follows is each
// member's own and is in no checkpoint, so zeros are what a checkpoint says.
Status ApplyUpdate(model::StageModel* model, const ReplicaPart& part, std::span<const float> update,
                   double decay, bool first) {
  Buffer weights(part.values * sizeof(float));
  SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kWeights, part, weights.floats()));
  for (const model::TensorLayout& tensor : part.tensors) {
    const float factor = tensor.shape.size() >= 2 ? static_cast<float>(decay) : 1.0F;
    const std::span<float> values = weights.floats().subspan(tensor.offset, tensor.size);
    for (std::size_t i = 0; i < tensor.size; ++i) {
      values[i] = values[i] * factor - update[tensor.offset + i];
    }
  }
  SHOAL_RETURN_IF_ERROR(WritePart(model, StateVector::kWeights, part, weights.floats()));
  if (!first) return Status::Ok();
  std::fill(weights.floats().begin(), weights.floats().end(), 0.0F);
  return WritePart(model, StateVector::kFirstMoment, part, weights.floats());
}

class MarsitStep final : public ReplicaStep {
 public:
  explicit MarsitStep(const ReplicaContext& context)
      : core_(context.core),
        links_(context.links),
        method_(context.method),
        start_(context.method.StartOf(context.core->config.steps)),
        scope_(core_->deps.control) {}

  Status Init(const ReplicaContext& context);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  bool warming_up() const { return order_.step < start_; }
  std::uint64_t ContributorsOf(const MarsitPart& part) const;
  bool Counts(const MarsitPart& part) const {
    return (ContributorsOf(part) >> part.ring->rank() & 1) != 0;
  }
  optimizer::AdamWStep StepOf(double learning_rate, double gradient_factor) const;
  void Sum(MarsitPart* part, const char* label, Buffer values, std::function<void(Buffer)> then);
  void ReduceGradients(MarsitPart* part, double clip);
  void OnGradients(const MarsitPart& part, Buffer sum);
  void FoldGradient(MarsitPart* part, double clip);
  void Exchange(MarsitPart* part, Folded folded);
  void OnUpdate(MarsitPart* part, bool exact, Buffer update);
  void FinishUpdate(MarsitPart* part, Buffer update);
  void FinishPart(double squared);
  void Fail(const Status& status);

  RunnerCore* const core_;
  const GroupLinks* const links_;
  const compression::ReplicaMethod method_;
  const std::uint64_t start_;  // first step that is not an exact average
  std::vector<MarsitPart> parts_;
  ReduceOrder order_;
  double squared_norm_ = 0;
  std::size_t parts_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  TaskScope scope_;                           // last: its tasks use what is above
};

Status MarsitStep::Init(const ReplicaContext& context) {
  for (const auto& part : context.parts) {
    const std::size_t members = part->channel->size();
    if (members > collective::kRingMembersMax) {
      return InvalidArgument("marsit takes groups of up to " +
                             std::to_string(collective::kRingMembersMax) + " members, not " +
                             std::to_string(members) + "; take fewer pipelines or another method");
    }
    collective::RingOptions ring;
    ring.columns = ColumnsOf(method_.shape, members);
    ring.epoch = core_->config.generation;
    ring.early_bytes_max += 2 * sizeof(float) * part->values;
    MarsitPart made;
    made.part = part;
    made.ring =
        collective::NewRingReduce(part->channel, core_->deps.control, core_->deps.codec, ring);
    // Groups of one run number their rounds alike; those of the embedding span two stages.
    constexpr std::uint64_t kSeedStride = 0x9e3779b97f4a7c15;
    const std::uint64_t group = part->embedding ? 0 : 1 + std::uint64_t{core_->config.stage};
    collective::MarsitOptions options;
    options.every = method_.every;
    options.seed = core_->config.seed + kSeedStride * group;
    options.masked = MaskedRows(*part);
    SHOAL_ASSIGN_OR_RETURN(
        made.exchange,
        collective::NewMarsitExchange(options, part->values, made.ring.get(), core_->deps.control));
    made.scales = std::make_shared<const Scales>(part->tensors.size(), 1.0F);
    parts_.push_back(std::move(made));
  }
  return Status::Ok();
}

std::uint64_t MarsitStep::ContributorsOf(const MarsitPart& part) const {
  return Mask(PartWeights(*part.part, order_.pipelines));
}

optimizer::AdamWStep MarsitStep::StepOf(double learning_rate, double gradient_factor) const {
  optimizer::AdamWOptions options = OptimizerOptionsOf(*core_, order_.step);
  options.learning_rate = learning_rate;
  options.gradient_factor = gradient_factor;
  return optimizer::MakeFrozenStep(options, start_);
}

void MarsitStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  squared_norm_ = 0;
  parts_left_ = parts_.size();
  const double clip = optimizer::ClipFactor(core_->deps.model->options().optimizer.clip_norm,
                                            order.local_norms[core_->config.pipeline]);
  for (MarsitPart& part : parts_) {
    const auto weights = PartWeights(*part.part, order.pipelines);
    CountRaw(*part.part, weights, part.part->values, &core_->stats.replica);
    if (warming_up()) {
      ReduceGradients(&part, clip);
    } else {
      FoldGradient(&part, clip);
    }
  }
}

// Adds up the members' values in a round of their own behind that of the step.
void MarsitStep::Sum(MarsitPart* part, const char* label, Buffer values,
                     std::function<void(Buffer)> then) {
  collective::RingRequest request;
  request.round = 2 * (order_.step + 1) + 1;
  request.contributors = ContributorsOf(*part);
  request.label = label;
  request.vector = std::move(values);
  request.merge = collective::NewSumMerge();
  part->ring->Start(std::move(request), [this, then = std::move(then)](Result<Buffer> sum) {
    if (!sum.ok()) return Fail(sum.status());
    core_->Progress();
    then(std::move(*sum));
  });
}

void MarsitStep::ReduceGradients(MarsitPart* part, double clip) {
  auto read = [model = core_->deps.model, from = part->part,
               scale = static_cast<float>(clip)]() -> Result<Buffer> {
    Buffer gradient(from->values * sizeof(float));
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, *from, gradient.floats()));
    for (float& value : gradient.floats()) value *= scale;
    return gradient;
  };
  scope_.Run(core_->deps.compute, "gradients.read", std::move(read),
             [this, part](Result<Buffer> values) {
               if (!values.ok()) return Fail(values.status());
               core_->Progress();
               Sum(part, "gradients", std::move(*values),
                   [this, part](Buffer sum) { OnGradients(*part, std::move(sum)); });
             });
}

void MarsitStep::OnGradients(const MarsitPart& part, Buffer sum) {
  auto write = [model = core_->deps.model, to = part.part, sum = std::move(sum)] {
    return WritePart(model, StateVector::kGradients, *to, sum.floats());
  };
  scope_.Run(core_->deps.compute, "gradients.write", std::move(write),
             [this](const Status& written) {
               if (!written.ok()) return Fail(written);
               if (parts_left_ > 1) return FinishPart(0);
               auto norm = [model = core_->deps.model] { return model->SquaredGradientNorm(1.0); };
               scope_.Run(core_->deps.compute, "gradients.norm", std::move(norm),
                          [this](double squared) { FinishPart(squared); });
             });
}

void MarsitStep::FoldGradient(MarsitPart* part, double clip) {
  // Members' own updates are averaged, so a member's own gradient stands for all of them there, and
  // one of two ends for both.
  const auto members = static_cast<double>(order_.pipelines.size());
  const double factor = clip * members * part->part->ends / static_cast<double>(order_.labels);
  auto fold = [model = core_->deps.model, of = part->part, momentum = part->momentum,
               scales = part->scales, counts = Counts(*part),
               step = StepOf(order_.learning_rate, factor)] {
    return Fold(model, *of, momentum, *scales, counts, step);
  };
  scope_.Run(core_->deps.compute, "marsit.fold", std::move(fold),
             [this, part](Result<Folded> folded) {
               if (!folded.ok()) return Fail(folded.status());
               core_->Progress();
               Exchange(part, std::move(*folded));
             });
}

void MarsitStep::Exchange(MarsitPart* part, Folded folded) {
  part->next_momentum = std::move(folded.momentum);
  part->next_scales = part->scales;
  part->magnitudes = std::move(folded.magnitudes);
  // What is in the members' memories is in no checkpoint, so none is left at one.
  if (order_.checkpoint) part->exchange->RequestExact();
  const bool exact = part->exchange->NextIsExact();
  collective::MarsitRates rates;
  rates.local = StepOf(order_.learning_rate, 1).step_size;
  // A learning rate of 0 is one, a sign that is worth nothing is none.
  rates.global = std::max(rates.local * static_cast<float>(method_.scale), 0x1p-100F);
  part->exchange->Start(2 * (order_.step + 1), ContributorsOf(*part), rates,
                        std::move(folded.input), [this, part, exact](Result<Buffer> update) {
                          if (!update.ok()) return Fail(update.status());
                          core_->Progress();
                          OnUpdate(part, exact, std::move(*update));
                        });
}

void MarsitStep::OnUpdate(MarsitPart* part, bool exact, Buffer update) {
  if (!exact) return FinishUpdate(part, std::move(update));
  auto held = std::make_shared<Buffer>(std::move(update));
  Sum(part, "magnitudes", std::move(part->magnitudes), [this, part, held](const Buffer& sums) {
    auto scales =
        ScalesOf(sums.floats(), static_cast<std::uint32_t>(std::popcount(ContributorsOf(*part))));
    if (!scales.ok()) return Fail(scales.status());
    part->next_scales = std::make_shared<const Scales>(std::move(*scales));
    FinishUpdate(part, std::move(*held));
  });
}

void MarsitStep::FinishUpdate(MarsitPart* part, Buffer update) {
  // The embedding counts on one of its two stages, as its gradient does.
  const bool counts = !part->part->embedding || core_->first_stage();
  auto make = [model = core_->deps.model, of = part->part, scales = part->scales, counts,
               step = StepOf(order_.learning_rate, 1), values = std::move(update)]() mutable {
    return MakeUpdate(model, *of, *scales, std::move(values), step, counts);
  };
  scope_.Run(core_->deps.compute, "marsit.update", std::move(make),
             [this, part](Result<Update> made) {
               if (!made.ok()) return Fail(made.status());
               part->update = std::move(made->values);
               // In the unit of a gradient sum.
               const auto labels = static_cast<double>(order_.labels);
               FinishPart(made->squared_norm * labels * labels);
             });
}

void MarsitStep::FinishPart(double squared) {
  squared_norm_ += squared;
  if (--parts_left_ > 0 || !done_) return;
  std::exchange(done_, nullptr)(squared_norm_);
}

void MarsitStep::Fail(const Status& status) {
  // Only the first of several errors counts.
  if (done_) std::exchange(done_, nullptr)(status);
}

void MarsitStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  if (warming_up()) {
    auto apply = [model = core_->deps.model, order] {  // clipped already
      return model->Apply(order.step, 1.0 / static_cast<double>(order.labels), 0,
                          order.learning_rate);
    };
    return scope_.Run(core_->deps.compute, "model.apply", std::move(apply), std::move(done));
  }
  struct Task {
    std::shared_ptr<const ReplicaPart> part;
    std::shared_ptr<const Buffer> update;
    bool first = false;
  };
  std::vector<Task> tasks;
  for (MarsitPart& part : parts_) {
    part.exchange->Commit();
    const bool first = part.momentum == nullptr;
    part.momentum = std::move(part.next_momentum);
    part.scales = std::move(part.next_scales);
    tasks.push_back({part.part, std::exchange(part.update, nullptr), first});
  }
  const double decay =
      1 - order.learning_rate * core_->deps.model->options().optimizer.weight_decay;
  auto apply = [model = core_->deps.model, tasks = std::move(tasks), decay] {
    for (const Task& task : tasks) {
      SHOAL_RETURN_IF_ERROR(
          ApplyUpdate(model, *task.part, task.update->floats(), decay, task.first));
    }
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(core_->deps.compute, "marsit.apply", std::move(apply), std::move(done));
}

std::string MarsitStep::Awaited(const PeerId** peer) const {
  for (const MarsitPart& part : parts_) {
    std::string text =
        AwaitedText(*links_, *part.part->channel, part.ring->Awaited(), "update", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewMarsitStep(ReplicaContext context) {
  return MakeReplicaStep<MarsitStep>(context);
}

}  // namespace shoal::pipeline
