#include "compression/power_sgd_vector.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace shoal::compression {
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

PowerSgdLayout::PowerSgdLayout(const PowerSgdOptions& options,
                               const std::vector<std::vector<std::size_t>>& tensors)
    : start_(options.start) {
  for (const auto& dimensions : tensors) {
    Tensor tensor;
    tensor.at = values_;
    tensor.first_at = first_values_;
    tensor.second_at = second_values_;
    if (UsesFactors(options, dimensions, options.start)) {
      tensor.shape = MatrixOf(dimensions);
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

Result<PowerSgdRound> PowerSgdRound::Begin(const PowerSgdLayout& layout,
                                           std::span<const float> gradient,
                                           const PowerSgdMemory& memory,
                                           const PowerSgdStepKey& key) {
  const bool listens = gradient.empty();
  SHOAL_CHECK(listens || gradient.size() == layout.values());
  PowerSgdRound round(layout);
  round.first_.resize(layout.first_values());
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const Tensor& tensor = layout.tensors()[i];
    const auto values = listens ? gradient : gradient.subspan(tensor.at, tensor.shape.values());
    float* to = round.first_.data() + tensor.first_at;
    if (tensor.rank == 0) {
      std::copy(values.begin(), values.end(), to);
      continue;
    }
    const FactorKey name{key.seed, static_cast<std::uint32_t>(i), key.generation};
    const std::size_t place = round.steps_.size();
    SHOAL_CHECK(memory.empty() || (place < memory.size() && memory[place].shape == tensor.shape));
    // A residual is as large as its tensor: only another group's state is copied here.
    std::optional<PowerSgdState> anew;
    if (memory.empty()) {
      anew = NewPowerSgdState(tensor.shape, tensor.rank, name);
    } else if (memory[place].generation != key.generation) {
      anew = AtGeneration(memory[place], name);
    }
    const PowerSgdState& state = anew ? *anew : memory[place];
    if (listens) {
      round.steps_.push_back(PowerSgdStep::Listen(state));
    } else {
      SHOAL_ASSIGN_OR_RETURN(auto step, PowerSgdStep::Begin(values, state, name, key.step));
      round.steps_.push_back(std::move(step));
    }
    std::copy(round.steps_.back().p().begin(), round.steps_.back().p().end(), to);
  }
  return round;
}

Status PowerSgdRound::Continue(std::span<const float> first) {
  SHOAL_RETURN_IF_ERROR(CheckValues(first, layout_->first_values(), "first"));
  first_.assign(first.begin(), first.end());
  second_.resize(layout_->second_values());
  auto step = steps_.begin();
  for (const Tensor& tensor : layout_->tensors()) {
    if (tensor.rank == 0) continue;
    const auto p = first.subspan(tensor.first_at, PValues(tensor));
    SHOAL_ASSIGN_OR_RETURN(const auto q, (step++)->Continue(p));
    std::copy(q.begin(), q.end(), second_.data() + tensor.second_at);
  }
  return Status::Ok();
}

Result<PowerSgdMemory> PowerSgdRound::Finish(std::span<const float> second,
                                             std::span<float> gradient) {
  SHOAL_CHECK(gradient.size() == layout_->values());
  SHOAL_RETURN_IF_ERROR(CheckValues(second, layout_->second_values(), "second"));
  PowerSgdMemory next;
  auto step = steps_.begin();
  for (const Tensor& tensor : layout_->tensors()) {
    const auto to = gradient.subspan(tensor.at, tensor.shape.values());
    if (tensor.rank == 0) {
      std::copy_n(first_.data() + tensor.first_at, to.size(), to.data());
      continue;
    }
    const auto q = second.subspan(tensor.second_at, QValues(tensor));
    SHOAL_ASSIGN_OR_RETURN(auto state, (step++)->Finish(q, to));
    next.push_back(std::move(state));
  }
  return next;
}

}  // namespace shoal::compression
