#include "replica/momentum_apply.h"

#include <utility>

#include "replica/parameter_slices.h"

namespace shoal::replica {

using model::StateVector;

Status ApplyMomentum(model::StageModel* model, Executor* codec, const ParameterGroup& part,
                     const Buffer* agreed, const optimizer::AdamWOptions& options,
                     std::uint64_t variance_updates, MomentumValues* memory) {
  optimizer::AdamWOptions undecayed = options;
  undecayed.weight_decay = 0;
  const optimizer::AdamWStep with_decay = optimizer::MakeFrozenStep(options, variance_updates);
  const optimizer::AdamWStep without = optimizer::MakeFrozenStep(undecayed, variance_updates);
  const std::size_t bytes = part.values * sizeof(float);
  Buffer& weights = memory->gradient = Sized(std::move(memory->gradient), bytes);
  Buffer& variance = memory->momentum = Sized(std::move(memory->momentum), bytes);
  Buffer momentum, gradient;
  SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kWeights, part, weights.floats()));
  SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kSecondMoment, part, variance.floats()));
  if (agreed == nullptr) {
    momentum = Buffer(bytes);
    gradient = Buffer(bytes);
    SHOAL_RETURN_IF_ERROR(
        ReadParameters(model, StateVector::kFirstMoment, part, momentum.floats()));
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kGradients, part, gradient.floats()));
  }
  ForSlices(codec, "momentum.apply", part.tensors, [&](const TensorSlice& slice) {
    const auto of = [&slice](auto span) { return span.subspan(slice.first, slice.values); };
    const bool decays = part.tensors[slice.tensor].shape.size() >= 2;
    const optimizer::AdamWStep& step = decays ? with_decay : without;
    if (agreed != nullptr) {
      optimizer::FrozenUpdate(step, of(agreed->floats()), of(std::as_const(variance).floats()),
                              of(weights.floats()));
    } else {
      optimizer::AdamWUpdate(step, of(std::as_const(gradient).floats()), of(weights.floats()),
                             of(momentum.floats()), of(variance.floats()));
    }
    return 0.0;
  });
  if (agreed == nullptr) {
    SHOAL_RETURN_IF_ERROR(
        WriteParameters(model, StateVector::kSecondMoment, part, variance.floats()));
  }
  SHOAL_RETURN_IF_ERROR(
      WriteParameters(model, StateVector::kFirstMoment, part,
                      (agreed != nullptr ? *agreed : std::as_const(momentum)).floats()));
  return WriteParameters(model, StateVector::kWeights, part, weights.floats());
}

Status ScaleWithOwn(model::StageModel* model, const ParameterGroup& part,
                    const optimizer::AdamWStep& step, double blend, Buffer* agreed) {
  Buffer before(agreed->size());
  SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kFirstMoment, part, before.floats()));
  optimizer::ScaleFold(step, static_cast<float>(blend), before.floats(), agreed->floats());
  return Status::Ok();
}

}  // namespace shoal::replica
