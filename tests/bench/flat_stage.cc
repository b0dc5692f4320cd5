#include "tests/bench/flat_stage.h"

#include <algorithm>
#include <utility>

namespace shoal::bench {

using model::StateVector;

namespace {

// Cuts [first, first + values.size()) at the borders of tensors.
template <typename Values, typename Visit>
void ForTensors(std::span<const model::TensorLayout> layout, std::size_t first, Values values,
                Visit visit) {
  for (std::size_t tensor = 0; tensor < layout.size() && !values.empty(); ++tensor) {
    const std::size_t end = layout[tensor].offset + layout[tensor].size;
    if (first >= end) continue;
    const std::size_t count = std::min(values.size(), end - first);
    visit(tensor, first, values.first(count));
    values = values.subspan(count);
    first += count;
  }
}

}  // namespace

FlatStage::FlatStage(std::shared_ptr<const Buffer> gradients,
                     std::vector<model::TensorLayout> layout, model::StageOptions options)
    : given_(std::move(gradients)), layout_(std::move(layout)), options_(std::move(options)) {
  for (auto& vector : state_) vector.resize(state_size());
  ZeroGradients();
}

Status FlatStage::Read(StateVector which, std::size_t first, std::span<float> values) {
  if (first > state_size() || values.size() > state_size() - first) return OutOfRange("state");
  if (which == StateVector::kGradients) {
    ForTensors(layout_, first, values, [this](std::size_t tensor, std::size_t at, auto part) {
      ReadGradients(tensor, at, part);
    });
  } else {
    std::ranges::copy(std::span(Of(which)).subspan(first, values.size()), values.begin());
  }
  return Status::Ok();
}

Status FlatStage::Write(StateVector which, std::size_t first, std::span<const float> values) {
  if (first > state_size() || values.size() > state_size() - first) return OutOfRange("state");
  if (which == StateVector::kGradients) {
    ForTensors(layout_, first, values, [this](std::size_t tensor, std::size_t at, auto part) {
      WriteGradients(tensor, at, part);
    });
  } else {
    std::ranges::copy(values, std::span(Of(which)).subspan(first).begin());
  }
  return Status::Ok();
}

void FlatStage::ReadGradients(std::size_t tensor, std::size_t first, std::span<float> values) {
  switch (gradients_of_[tensor]) {
    case Gradients::kZero: std::ranges::fill(values, 0.0F); break;
    case Gradients::kGiven:
      std::ranges::copy(given_->floats().subspan(first, values.size()), values.begin());
      break;
    case Gradients::kWritten:
      std::ranges::copy(std::span(Of(StateVector::kGradients)).subspan(first, values.size()),
                        values.begin());
      break;
  }
}

void FlatStage::WriteGradients(std::size_t tensor, std::size_t first,
                               std::span<const float> values) {
  const model::TensorLayout& whole = layout_[tensor];
  const std::span<float> written = Of(StateVector::kGradients);
  if (values.size() < whole.size && gradients_of_[tensor] != Gradients::kWritten) {
    ReadGradients(tensor, whole.offset, written.subspan(whole.offset, whole.size));
  }
  gradients_of_[tensor] = Gradients::kWritten;
  std::ranges::copy(values, written.subspan(first).begin());
}

std::vector<std::vector<std::size_t>> FlatStage::weight_parts() const {
  std::vector<std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < layout_.size(); ++i) parts.push_back({i});
  return parts;
}

}  // namespace shoal::bench
