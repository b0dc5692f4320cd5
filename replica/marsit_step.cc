// The method `marsit` ("Sign Bit is Enough", DAC 2022; replica/collective/ring/marsit.h). While the
// variance warms up, the group averages gradients exactly. Afterwards every member folds its own
// gradient into its own momentum. Its update is that momentum over the frozen variance, plus the
// error of earlier signs. The signs of the updates go round a ring; now and then the updates are
// averaged exactly.
//
// An update is in parameter units. Each tensor has a scale: the mean magnitude of Adam's directions
// over the tensor and all members at the last exact round. A sign is worth the option `scale` times
// that, times the learning rate.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "common/task_scope.h"
#include "optimizer/adamw.h"
#include "replica/collective/ring/marsit_exchange.h"
#include "replica/collective/ring/ring_reduce.h"
#include "replica/methods/group_limits.h"
#include "replica/methods/marsit_method.h"
#include "replica/parameter_slices.h"
#include "replica/replica_step.h"
#include "replica/state/error_keeper.h"

namespace shoal::replica {
namespace {

using model::StateVector;

// One per tensor of a part.
using Scales = std::vector<float>;

constexpr char kDirections[] = "directions";  // kept errors of these
constexpr std::size_t kTorusMembersMin = 8;   // of RingShape::kAuto

// What a member brings into a round.
struct Folded {
  std::shared_ptr<Buffer> momentum;
  std::shared_ptr<Buffer> input;  // null: it does not count in this step
  Buffer magnitudes;              // mean of directions by tensor; zeros if it does not count
  Buffer variance;                // has done its work
};

// Of a member in a round.
struct Counting {
  bool counts = false;
  float members = 1;  // that count
};

struct Update {
  std::shared_ptr<Buffer> values;  // that parameters lose
  double squared_norm = 0;         // of the momentum that has this update
  Buffer scratch;                  // has done its work
};

struct MarsitGroup {
  std::shared_ptr<const ParameterGroup> part;
  std::unique_ptr<collective::RingReduce> ring;
  std::unique_ptr<collective::MarsitExchange> exchange;
  std::shared_ptr<Buffer> momentum;  // own; null: as the model has it
  std::shared_ptr<const Scales> scales;
  Buffer scratch, spare_momentum, spare_input;  // kept between steps
  // Of the running step; what outlives it is adopted by Apply.
  std::shared_ptr<Buffer> next_momentum, input, update;
  std::shared_ptr<const Scales> next_scales;
  Buffer magnitudes;
};

std::size_t ColumnsOf(RingShape shape, std::size_t members) {
  const bool torus =
      shape == RingShape::kTorus || (shape == RingShape::kAuto && members >= kTorusMembersMin);
  return torus ? collective::SquarestTorusOf(members).columns : 0;
}

// Rows of all matrices: embeddings have rows without any gradient, and a mark per row is little.
std::vector<collective::RowRange> MaskedRows(const ParameterGroup& part) {
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

double SumOfMagnitudes(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::abs(value);
  return sum;
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

// Thread: compute, with the help of `codec`, as the ones below. Buffers that are given are worked
// in and given back.
Result<Folded> Fold(model::StageModel* model, Executor* codec, const ParameterGroup& part,
                    const std::shared_ptr<const Buffer>& before, const Scales& scales,
                    const Counting& counting, const optimizer::AdamWStep& step, Buffer momentum,
                    Buffer variance, Buffer input, GradientMark* mark) {
  const bool counts = counting.counts;
  const std::size_t bytes = part.values * sizeof(float);
  Folded folded;
  folded.magnitudes = Buffer(part.tensors.size() * sizeof(float));
  const std::span<float> magnitudes = folded.magnitudes.floats();
  std::fill(magnitudes.begin(), magnitudes.end(), 0.0F);
  momentum = Sized(std::move(momentum), bytes);
  if (before == nullptr) {
    SHOAL_RETURN_IF_ERROR(
        ReadParameters(model, StateVector::kFirstMoment, part, momentum.floats()));
  }
  if (counts) {
    input = Sized(std::move(input), bytes);
    variance = Sized(std::move(variance), bytes);
    SHOAL_RETURN_IF_ERROR(ReadGradients(model, part, input.floats(), mark));
    SHOAL_RETURN_IF_ERROR(
        ReadParameters(model, StateVector::kSecondMoment, part, variance.floats()));
  }
  const auto fold = [&](const TensorSlice& slice) {
    const auto of = [&slice](Buffer& all) {
      return all.floats().subspan(slice.first, slice.values);
    };
    if (before != nullptr) {
      std::ranges::copy(before->floats().subspan(slice.first, slice.values), of(momentum).begin());
    }
    if (!counts) return 0.0;
    optimizer::FoldMomentum(step, of(input), of(momentum));
    // What only this member has seen counts for one of all, so its own may go as much further.
    optimizer::AdamDirection(step, of(momentum), of(variance), of(input), counting.members);
    const double magnitude = SumOfMagnitudes(of(input));
    for (float& value : of(input)) value /= scales[slice.tensor];
    return magnitude;
  };
  const std::vector<double> sums = ForSlices(codec, "marsit.fold", part.tensors, fold);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto size = static_cast<double>(part.tensors[i].size);
    if (size > 0) magnitudes[i] = static_cast<float>(sums[i] / size);
  }
  if (counts) folded.input = std::make_shared<Buffer>(std::move(input));
  folded.momentum = std::make_shared<Buffer>(std::move(momentum));
  folded.variance = std::move(variance);
  return folded;
}

// Takes the update out of the units of the scales.
Result<Update> MakeUpdate(model::StageModel* model, Executor* codec, const ParameterGroup& part,
                          const Scales& scales, Buffer values, const optimizer::AdamWStep& step,
                          bool counts, Buffer scratch) {
  Update update;
  const bool normed = counts && step.step_size > 0;
  if (normed) {
    scratch = Sized(std::move(scratch), values.size());
    SHOAL_RETURN_IF_ERROR(
        ReadParameters(model, StateVector::kSecondMoment, part, scratch.floats()));
  }
  const auto make = [&](const TensorSlice& slice) {
    const std::span<float> own = values.floats().subspan(slice.first, slice.values);
    for (float& value : own) value *= scales[slice.tensor];
    if (!normed) return 0.0;
    const std::span<float> m = scratch.floats().subspan(slice.first, slice.values);
    for (std::size_t i = 0; i < m.size(); ++i) {
      const float denominator = std::sqrt(m[i]) * step.inverse_root_correction2 + step.epsilon;
      m[i] = own[i] / step.step_size * denominator;
    }
    return optimizer::SumOfSquares(m);
  };
  const std::vector<double> squares = ForSlices(codec, "marsit.update", part.tensors, make);
  update.squared_norm = std::accumulate(squares.begin(), squares.end(), 0.0);
  update.values = std::make_shared<Buffer>(std::move(values));
  update.scratch = std::move(scratch);
  return update;
}

// `first`: the model's first moment, which all members have, ends here. Later moments are each
// member's own and in no checkpoint, so a checkpoint has zeros. `weights` is worked in.
Status ApplyUpdate(model::StageModel* model, Executor* codec, const ParameterGroup& part,
                   std::span<const float> update, double decay, bool first, Buffer* weights) {
  *weights = Sized(std::move(*weights), part.values * sizeof(float));
  SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kWeights, part, weights->floats()));
  ForSlices(codec, "marsit.apply", part.tensors, [&](const TensorSlice& slice) {
    const bool decays = part.tensors[slice.tensor].shape.size() >= 2;
    const float factor = decays ? static_cast<float>(decay) : 1.0F;
    float* const values = weights->floats().data() + slice.first;
    const float* const lost = update.data() + slice.first;
    for (std::size_t i = 0; i < slice.values; ++i) values[i] = values[i] * factor - lost[i];
    return 0.0;
  });
  SHOAL_RETURN_IF_ERROR(WriteParameters(model, StateVector::kWeights, part, weights->floats()));
  if (!first) return Status::Ok();
  std::fill(weights->floats().begin(), weights->floats().end(), 0.0F);
  return WriteParameters(model, StateVector::kFirstMoment, part, weights->floats());
}

class MarsitStep final : public ReplicaStep {
 public:
  explicit MarsitStep(const ReplicaContext& context)
      : member_(context.member),
        links_(context.links),
        options_(MarsitOptionsOf(context.method)),
        start_(options_.warm_up.StartOf(context.member->config.steps)),
        scope_(member_->control) {}

  Status Init(const ReplicaContext& context);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  void KeepErrors(ErrorKeeper* keeper) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  void TakeKept(MarsitGroup* part);
  bool warming_up() const { return order_.step < start_; }
  std::uint64_t ContributorsOf(const MarsitGroup& part) const;
  bool Counts(const MarsitGroup& part) const {
    return (ContributorsOf(part) >> part.ring->rank() & 1) != 0;
  }
  optimizer::AdamWStep StepOf(double learning_rate, double gradient_factor) const;
  void Sum(MarsitGroup* part, const char* label, Buffer values, std::function<void(Buffer)> then);
  void ReduceGradients(MarsitGroup* part, double clip);
  void OnGradients(const MarsitGroup& part, Buffer sum);
  void FoldGradient(MarsitGroup* part, double clip);
  void Exchange(MarsitGroup* part, Folded folded);
  void OnUpdate(MarsitGroup* part, bool exact, Buffer update);
  void FinishUpdate(MarsitGroup* part, Buffer update);
  void FinishPart(double squared);
  void Skip(std::function<void(Status)> done);
  void Fail(const Status& status);

  Member* const member_;
  const GroupLinks* const links_;
  const MarsitOptions options_;
  const std::uint64_t start_;  // first step that is not an exact average
  std::vector<MarsitGroup> parts_;
  ReduceOrder order_;
  double squared_norm_ = 0;
  std::size_t parts_left_ = 0;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  TaskScope scope_;                           // last: its tasks use what is above
};

Status MarsitStep::Init(const ReplicaContext& context) {
  SHOAL_ASSERT_ON(*member_->control);
  for (const auto& part : context.parts) {
    const std::size_t members = part->channel->size();
    if (members > kRingMembersMax) {
      return InvalidArgument("marsit takes groups of up to " + std::to_string(kRingMembersMax) +
                             " members, not " + std::to_string(members) +
                             "; take fewer pipelines or another method");
    }
    collective::RingOptions ring;
    ring.columns = ColumnsOf(options_.shape, members);
    ring.epoch = member_->config.generation;
    ring.early_bytes_max += 2 * sizeof(float) * part->values;
    MarsitGroup made;
    made.part = part;
    made.ring = collective::NewRingReduce(part->channel, member_->control, member_->codec, ring);
    // Groups of one run number their rounds alike; those of shared tensors span stages.
    constexpr std::uint64_t kSeedStride = 0x9e3779b97f4a7c15;
    const std::uint64_t group = part->shared() ? 0 : 1 + std::uint64_t{member_->config.stage};
    collective::MarsitOptions options;
    options.every = options_.EveryOf(member_->config.pipelines);
    options.reuse_memory = true;
    options.seed = member_->config.seed + kSeedStride * group;
    options.masked = MaskedRows(*part);
    SHOAL_ASSIGN_OR_RETURN(
        made.exchange,
        collective::NewMarsitExchange(options, part->values, made.ring.get(), member_->control));
    made.scales = std::make_shared<const Scales>(part->tensors.size(), 1.0F);
    parts_.push_back(std::move(made));
  }
  for (MarsitGroup& part : parts_) TakeKept(&part);
  return Status::Ok();
}

// Momentum and memory of the generation before. Scales, which all share, begin anew, so the memory
// leaves their units; other members may be more or fewer than then. The first round is exact.
void MarsitStep::TakeKept(MarsitGroup* part) {
  if (member_->errors == nullptr) return;
  const KeptVector kept = member_->errors->Take(VectorName(kDirections, *part->part));
  if (kept.momentum == nullptr || kept.compensation == nullptr) return;
  part->momentum = kept.momentum;
  const std::size_t members = part->part->channel->size();
  auto make = [codec = member_->codec, of = part->part, c = kept.compensation, scales = kept.scales,
               times = static_cast<float>(members) / static_cast<float>(kept.members)] {
    Buffer own(c->size());
    ForSlices(codec, "marsit.kept", of->tensors, [&](const TensorSlice& slice) {
      const float factor = (*scales)[slice.tensor] * times;
      const float* const from = c->floats().data() + slice.first;
      float* const to = own.floats().data() + slice.first;
      for (std::size_t i = 0; i < slice.values; ++i) to[i] = from[i] * factor;
      return 0.0;
    });
    return own;
  };
  // Before any round: what begins one is behind it on compute.
  scope_.Run(member_->compute, "marsit.kept", std::move(make), [this, part](Buffer own) {
    const Status restored = part->exchange->Restore(std::move(own), 0);
    if (!restored.ok()) return member_->fail(restored, nullptr);
    part->exchange->RequestExact();
  });
}

void MarsitStep::KeepErrors(ErrorKeeper* keeper) {
  SHOAL_ASSERT_ON(*member_->control);
  for (MarsitGroup& part : parts_) {
    if (part.momentum == nullptr) continue;
    keeper->Keep(VectorName(kDirections, *part.part), {{},
                                                       part.momentum,
                                                       part.exchange->TakeCompensation(),
                                                       part.scales,
                                                       part.part->channel->size()});
  }
}

std::uint64_t MarsitStep::ContributorsOf(const MarsitGroup& part) const {
  return Mask(GroupWeights(*part.part, order_.pipelines));
}

optimizer::AdamWStep MarsitStep::StepOf(double learning_rate, double gradient_factor) const {
  optimizer::AdamWOptions options = OptimizerOptionsOf(*member_, order_.step);
  options.learning_rate = learning_rate;
  options.gradient_factor = gradient_factor;
  return optimizer::MakeFrozenStep(options, start_);
}

void MarsitStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  squared_norm_ = 0;
  parts_left_ = parts_.size();
  const double clip = ClipOf(*member_, order);
  for (MarsitGroup& part : parts_) {
    const auto weights = GroupWeights(*part.part, order.pipelines);
    CountRaw(*part.part, weights, part.part->values, &member_->stats.replica);
    if (warming_up()) {
      ReduceGradients(&part, clip);
    } else {
      FoldGradient(&part, clip);
    }
  }
}

// Adds up the members' values in a round of their own behind that of the step.
void MarsitStep::Sum(MarsitGroup* part, const char* label, Buffer values,
                     std::function<void(Buffer)> then) {
  collective::RingRequest request;
  request.round = 2 * (order_.step + 1) + 1;
  request.contributors = ContributorsOf(*part);
  request.label = label;
  request.vector = std::move(values);
  request.merge = collective::NewSumMerge();
  part->ring->Start(std::move(request), [this, then = std::move(then)](Result<Buffer> sum) {
    if (!sum.ok()) return Fail(sum.status());
    member_->progress();
    then(std::move(*sum));
  });
}

void MarsitStep::ReduceGradients(MarsitGroup* part, double clip) {
  auto read = [model = member_->model, from = part->part, mark = member_->mark,
               scale = static_cast<float>(clip)]() -> Result<Buffer> {
    Buffer gradient(from->values * sizeof(float));
    SHOAL_RETURN_IF_ERROR(ReadGradients(model, *from, gradient.floats(), mark.get()));
    for (float& value : gradient.floats()) value *= scale;
    return gradient;
  };
  scope_.Run(member_->compute, "gradients.read", std::move(read),
             [this, part](Result<Buffer> values) {
               if (!values.ok()) return Fail(values.status());
               member_->progress();
               Sum(part, "gradients", std::move(*values),
                   [this, part](Buffer sum) { OnGradients(*part, std::move(sum)); });
             });
}

void MarsitStep::OnGradients(const MarsitGroup& part, Buffer sum) {
  auto write = [model = member_->model, to = part.part, sum = std::move(sum)] {
    return WriteParameters(model, StateVector::kGradients, *to, sum.floats());
  };
  scope_.Run(member_->compute, "gradients.write", std::move(write), [this](const Status& written) {
    if (!written.ok()) return Fail(written);
    if (parts_left_ > 1) return FinishPart(0);
    auto norm = [model = member_->model] { return model->SquaredGradientNorm(1.0); };
    scope_.Run(member_->compute, "gradients.norm", std::move(norm),
               [this](double squared) { FinishPart(squared); });
  });
}

void MarsitStep::FoldGradient(MarsitGroup* part, double clip) {
  // Members' own updates are averaged, so a member's own gradient stands for all of them there, and
  // one of two ends for both.
  const auto members = static_cast<double>(order_.pipelines.size());
  const double factor = clip * members * part->part->copies / static_cast<double>(order_.labels);
  const Counting counting{Counts(*part), static_cast<float>(std::popcount(ContributorsOf(*part)))};
  auto fold = [model = member_->model, codec = member_->codec, of = part->part,
               before = std::shared_ptr<const Buffer>(part->momentum), scales = part->scales,
               counting, step = StepOf(order_.learning_rate, factor), mark = member_->mark,
               momentum = std::move(part->spare_momentum), scratch = std::move(part->scratch),
               input = std::move(part->spare_input)]() mutable {
    return Fold(model, codec, *of, before, *scales, counting, step, std::move(momentum),
                std::move(scratch), std::move(input), mark.get());
  };
  scope_.Run(member_->compute, "marsit.fold", std::move(fold), [this, part](Result<Folded> folded) {
    if (!folded.ok()) return Fail(folded.status());
    member_->progress();
    Exchange(part, std::move(*folded));
  });
}

void MarsitStep::Exchange(MarsitGroup* part, Folded folded) {
  part->next_momentum = std::move(folded.momentum);
  part->scratch = std::move(folded.variance);
  part->input = std::move(folded.input);
  part->next_scales = part->scales;
  part->magnitudes = std::move(folded.magnitudes);
  // What is in the members' memories is in no checkpoint, so none is left at one.
  if (order_.checkpoint) part->exchange->RequestExact();
  const bool exact = part->exchange->NextIsExact();
  collective::MarsitRates rates;
  rates.local = StepOf(order_.learning_rate, 1).step_size;
  // A learning rate of 0 is one, a sign that is worth nothing is none.
  rates.global = std::max(rates.local * static_cast<float>(options_.scale), 0x1p-100F);
  part->exchange->Start(2 * (order_.step + 1), ContributorsOf(*part), rates, part->input,
                        [this, part, exact](Result<Buffer> update) {
                          if (!update.ok()) return Fail(update.status());
                          member_->progress();
                          OnUpdate(part, exact, std::move(*update));
                        });
}

void MarsitStep::OnUpdate(MarsitGroup* part, bool exact, Buffer update) {
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

void MarsitStep::FinishUpdate(MarsitGroup* part, Buffer update) {
  // What stages share counts on the first of them, as its gradient does.
  const bool counts = !part->part->shared() || member_->first_stage();
  auto make = [model = member_->model, codec = member_->codec, of = part->part,
               scales = part->scales, counts, step = StepOf(order_.learning_rate, 1),
               values = std::move(update), scratch = std::move(part->scratch)]() mutable {
    return MakeUpdate(model, codec, *of, *scales, std::move(values), step, counts,
                      std::move(scratch));
  };
  scope_.Run(member_->compute, "marsit.update", std::move(make), [this, part](Result<Update> made) {
    if (!made.ok()) return Fail(made.status());
    part->update = std::move(made->values);
    part->scratch = std::move(made->scratch);
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
  SHOAL_ASSERT_ON(*member_->control);
  if (order.skip) return Skip(std::move(done));
  if (warming_up()) {
    auto apply = [model = member_->model, order] {  // clipped already
      return model->Apply(order.step, 1.0 / static_cast<double>(order.labels), 0,
                          order.learning_rate);
    };
    return scope_.Run(member_->compute, "model.apply", std::move(apply), std::move(done));
  }
  struct Task {
    std::shared_ptr<const ParameterGroup> part;
    std::shared_ptr<Buffer> update;
    bool first = false;
    Buffer scratch;
  };
  auto tasks = std::make_shared<std::vector<Task>>();
  for (MarsitGroup& part : parts_) {
    part.exchange->Commit();
    const bool first = part.momentum == nullptr;
    if (!first) part.spare_momentum = std::move(*part.momentum);
    part.momentum = std::move(part.next_momentum);
    part.scales = std::move(part.next_scales);
    if (part.input != nullptr) part.spare_input = std::move(*std::exchange(part.input, nullptr));
    tasks->push_back(
        {part.part, std::exchange(part.update, nullptr), first, std::move(part.scratch)});
  }
  const double decay = 1 - order.learning_rate * member_->model->options().optimizer.weight_decay;
  auto apply = [model = member_->model, codec = member_->codec, tasks, decay] {
    for (Task& task : *tasks) {
      SHOAL_RETURN_IF_ERROR(ApplyUpdate(model, codec, *task.part,
                                        std::as_const(*task.update).floats(), decay, task.first,
                                        &task.scratch));
    }
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(member_->compute, "marsit.apply", std::move(apply),
             [this, tasks, done = std::move(done)](const Status& status) {
               for (std::size_t i = 0; i < parts_.size(); ++i) {
                 parts_[i].scratch = std::move((*tasks)[i].scratch);
                 parts_[i].exchange->Recycle(std::move(*(*tasks)[i].update));
               }
               done(status);
             });
}

// A round that was to be exact is due again.
void MarsitStep::Skip(std::function<void(Status)> done) {
  for (MarsitGroup& part : parts_) {
    part.exchange->Rollback();
    if (part.update == nullptr) continue;  // the variance warms up
    part.spare_momentum = std::move(*std::exchange(part.next_momentum, nullptr));
    part.next_scales = nullptr;
    if (part.input != nullptr) part.spare_input = std::move(*std::exchange(part.input, nullptr));
    part.exchange->Recycle(std::move(*std::exchange(part.update, nullptr)));
  }
  auto zero = [model = member_->model] {
    model->ZeroGradients();
    return Status::Ok();
  };
  scope_.Run(member_->compute, "gradients.zero", std::move(zero), std::move(done));
}

std::string MarsitStep::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  for (const MarsitGroup& part : parts_) {
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

}  // namespace shoal::replica
