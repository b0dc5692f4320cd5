#include "replica/collective/power_sgd_vector.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace shoal::collective {
namespace {

using Tensor = PowerSgdLayout::Tensor;

Status CheckValues(std::span<const float> agreed, std::size_t want, const char* which) {
  if (agreed.size() == want) return Status::Ok();
  return InvalidArgument("powersgd: the " + std::string(which) + " exchange gave " +
                         std::to_string(agreed.size()) + " values, expected " +
                         std::to_string(want) + "; all members must use the same rank and tensors");
}

std::size_t PValues(const Tensor& tensor) { return tensor.shape.rows * tensor.rank; }
std::size_t QValues(const Tensor& tensor) { return tensor.shape.columns * tensor.rank; }

}  // namespace

PowerSgdLayout::PowerSgdLayout(const replica::PowerSgdOptions& options,
                               const std::vector<std::vector<std::size_t>>& tensors)
    : start_(options.start) {
  for (const auto& dimensions : tensors) {
    Tensor tensor;
    tensor.at = values_;
    tensor.first_at = first_values_;
    tensor.second_at = second_values_;
    if (UsesFactors(options, dimensions, options.start)) {
      tensor.shape = MatrixOf(dimensions);
      tensor.factor = factored_++;
      tensor.rank = static_cast<std::uint32_t>(RankFor(tensor.shape, options.rank));
      first_values_ += PValues(tensor);
      second_values_ += QValues(tensor);
    } else {
      tensor.shape = {1, 1};
      for (const std::size_t side : dimensions) tensor.shape.rows *= side;
      first_values_ += tensor.shape.values();
    }
    values_ += tensor.shape.values();
    tensors_.push_back(tensor);
  }
}

PowerSgdRound::PowerSgdRound(const PowerSgdLayout& layout, const PowerSgdStepKey& key)
    : layout_(&layout),
      key_(key),
      steps_(layout.factored()),
      first_(layout.first_values() * sizeof(float)),
      second_(layout.second_values() * sizeof(float)),
      next_(layout.factored()) {}

Status PowerSgdRound::Begin(std::size_t number, std::span<const float> gradient,
                            const PowerSgdMemory& memory, std::vector<float> spare) {
  const Tensor& tensor = layout_->tensors()[number];
  const bool listens = gradient.empty();
  SHOAL_CHECK(listens || gradient.size() == layout_->values());
  const auto values = listens ? gradient : gradient.subspan(tensor.at, tensor.shape.values());
  const std::span<float> to = first_.floats().subspan(
      tensor.first_at, tensor.rank == 0 ? tensor.shape.values() : PValues(tensor));
  if (tensor.rank == 0) {
    std::ranges::fill(to, 0.0F);
    std::ranges::copy(values, to.begin());
    return Status::Ok();
  }
  const FactorKey name{key_.seed, static_cast<std::uint32_t>(number), key_.generation};
  const std::size_t factor = tensor.factor;
  SHOAL_CHECK(memory.empty() || (factor < memory.size() && memory[factor].shape == tensor.shape));
  // A residual is as large as its tensor: only another group's state is copied here.
  std::optional<PowerSgdState> anew;
  if (memory.empty()) {
    anew = NewPowerSgdState(tensor.shape, tensor.rank, name);
  } else if (memory[factor].generation != key_.generation) {
    anew = AtGeneration(memory[factor], name);
  }
  const PowerSgdState& state = anew ? *anew : memory[factor];
  if (listens) {
    steps_[factor] = PowerSgdStep::Listen(state);
  } else {
    SHOAL_ASSIGN_OR_RETURN(steps_[factor],
                           PowerSgdStep::Begin(values, state, name, key_.step, std::move(spare)));
  }
  std::ranges::copy(steps_[factor]->p(), to.begin());
  return Status::Ok();
}

Status PowerSgdRound::Continue(std::size_t number, std::span<const float> first) {
  SHOAL_RETURN_IF_ERROR(CheckValues(first, layout_->first_values(), "first"));
  const Tensor& tensor = layout_->tensors()[number];
  if (tensor.rank == 0) return Status::Ok();
  const auto p = first.subspan(tensor.first_at, PValues(tensor));
  SHOAL_ASSIGN_OR_RETURN(const auto q, steps_[tensor.factor]->Continue(p));
  std::ranges::copy(q, second_.floats().subspan(tensor.second_at, q.size()).begin());
  return Status::Ok();
}

Status PowerSgdRound::Finish(std::size_t number, std::span<const float> first,
                             std::span<const float> second, std::span<float> gradient) {
  SHOAL_CHECK(gradient.size() == layout_->values() && first.size() == layout_->first_values());
  SHOAL_RETURN_IF_ERROR(CheckValues(second, layout_->second_values(), "second"));
  const Tensor& tensor = layout_->tensors()[number];
  const auto to = gradient.subspan(tensor.at, tensor.shape.values());
  if (tensor.rank == 0) {
    std::copy_n(first.data() + tensor.first_at, to.size(), to.data());
    return Status::Ok();
  }
  const auto q = second.subspan(tensor.second_at, QValues(tensor));
  SHOAL_ASSIGN_OR_RETURN(next_[tensor.factor], steps_[tensor.factor]->Finish(q, to));
  return Status::Ok();
}

}  // namespace shoal::collective
