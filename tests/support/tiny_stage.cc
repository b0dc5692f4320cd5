#include "tests/support/tiny_stage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "common/checksum.h"
#include "optimizer/adamw.h"

namespace shoal::test_support {
namespace {

void Draw(unsigned seed, float scale, std::span<float> out) {
  std::mt19937 random(seed);
  for (float& value : out) {
    value = scale * (static_cast<float>(random() % 20001) / 10000.0f - 1.0f);
  }
}

}  // namespace

TinyStage::TinyStage(const TinyShape& shape, model::StageRange range, unsigned seed)
    : shape_(shape) {
  spec_.layer_specs.resize(shape.layers);
  spec_.hidden = shape.hidden;
  options_.range = range;
  options_.optimizer.clip_norm = shape.clip_norm;
  const std::size_t matrix = std::size_t{shape.hidden} * shape.hidden;
  const auto add = [this](const std::string& name, std::size_t size, unsigned from, float scale) {
    layout_.push_back({name, weights_.size(), size, {size / shape_.hidden, shape_.hidden}});
    weights_.resize(weights_.size() + size);
    Draw(from, scale, std::span(weights_).last(size));
  };
  if (first()) add("embedding", embedding_values(), seed, 1.0f);
  for (std::uint32_t l = range.first_layer; l < range.last_layer; ++l) {
    add("layer." + std::to_string(l), matrix, seed + 1 + l, 0.5f);
  }
  if (last() && (!shape.tied || !first())) {
    head_offset_ = weights_.size();
    add("head", embedding_values(), seed, 1.0f);
  }
  if (shape.bias) {
    bias_offset_ = weights_.size();
    add("bias", shape.hidden, seed + 1000, 0.3f);
  }
  for (std::vector<float>* state : {&gradients_, &first_moment_, &second_moment_}) {
    state->assign(weights_.size(), 0.0f);
  }
  if (!shape.units) return;
  filed_weights_ = weights_;
  for (std::size_t unit = 0; unit < layout_.size(); ++unit) {
    ReleaseUnit(model::StateVector::kWeights, unit);
    ReleaseUnit(model::StateVector::kGradients, unit);
  }
}

std::size_t TinyStage::LayerOffset(std::uint32_t local) const {
  return (first() ? embedding_values() : 0) + std::size_t{local} * shape_.hidden * shape_.hidden;
}

void TinyStage::RunLayer(std::size_t layer, Kept* kept) const {
  const std::size_t h = shape_.hidden;
  const float* const w = weights_.data() + LayerOffset(static_cast<std::uint32_t>(layer));
  const std::vector<double>& x = kept->x.back();
  std::vector<double> y(x.size());
  for (std::size_t p = 0; p < x.size() / h; ++p) {
    for (std::size_t j = 0; j < h; ++j) {
      double sum = shape_.bias ? weights_[bias_offset_ + j] : 0;
      for (std::size_t i = 0; i < h; ++i) sum += x[p * h + i] * w[i * h + j];
      y[p * h + j] = x[p * h + j] + std::tanh(sum);
    }
  }
  // What crosses a stage border is fp32, so every layer's output is.
  for (double& value : y) value = static_cast<float>(value);
  kept->x.push_back(std::move(y));
}

void TinyStage::AddLoss(const Kept& kept, model::StepLoss* loss) const {
  const std::size_t h = shape_.hidden;
  *loss = {};
  for (std::size_t p = 0; p < kept.labels.size(); ++p) {
    if (kept.labels[p] < 0) continue;
    ++loss->labels;
    for (std::size_t i = 0; i < h; ++i) {
      const double d = kept.x.back()[p * h + i] - Head()[kept.labels[p] * h + i];
      loss->sum += 0.5 * d * d;
    }
  }
}

Status TinyStage::Begin(const model::MicroBatch& micro_batch, Kept* kept) const {
  const std::size_t places = std::size_t{micro_batch.rows} * micro_batch.tokens;
  kept->micro_batch = micro_batch;
  kept->labels.assign(micro_batch.labels.begin(), micro_batch.labels.end());
  if (last() && kept->labels.size() != places) return InvalidArgument("labels");
  if (first()) {
    kept->tokens.assign(micro_batch.token_ids.begin(), micro_batch.token_ids.end());
    return kept->tokens.size() == places ? Status::Ok() : InvalidArgument("tokens");
  }
  if (micro_batch.input.size() != places * shape_.hidden) return InvalidArgument("input size");
  kept->x.emplace_back(micro_batch.input.begin(), micro_batch.input.end());
  return Status::Ok();
}

Result<bool> TinyStage::NextForwardPart(const model::MicroBatch& micro_batch,
                                        std::span<float> output, model::StepLoss* loss) {
  const std::size_t h = shape_.hidden;
  const std::size_t places = std::size_t{micro_batch.rows} * micro_batch.tokens;
  if (output.size() != (last() ? 0 : places * h)) return InvalidArgument("output size");
  if (!kept_.contains(micro_batch.id)) {
    Kept begun;
    SHOAL_RETURN_IF_ERROR(Begin(micro_batch, &begun));
    kept_.emplace(micro_batch.id, std::move(begun));
  }
  Kept& kept = kept_.at(micro_batch.id);
  if (kept.forward_parts_done == forward_parts()) return FailedPrecondition("a second forward");
  const std::size_t part = kept.forward_parts_done++;
  const std::size_t above = part + (first() ? 0 : 1);
  if (above == 0) {
    kept.x.emplace_back(places * h);
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t i = 0; i < h; ++i) {
        kept.x[0][p * h + i] = weights_[kept.tokens[p] * h + i];
      }
    }
  } else if (above <= layers()) {
    RunLayer(above - 1, &kept);
  } else {
    AddLoss(kept, loss);
  }
  if (part + 1 < forward_parts()) return true;
  if (!last()) std::copy(kept.x.back().begin(), kept.x.back().end(), output.begin());
  return false;
}

Status TinyStage::Forward(const model::MicroBatch& micro_batch, std::span<float> output,
                          model::StepLoss* loss) {
  if (kept_.contains(micro_batch.id)) return FailedPrecondition("a second forward");
  for (bool more = true; more;) {
    SHOAL_ASSIGN_OR_RETURN(more, NextForwardPart(micro_batch, output, loss));
  }
  const bool trains = micro_batch.id.step != UINT64_MAX;
  if (outputs_ && trains) outputs_(micro_batch, output, loss);
  return Status::Ok();
}

Result<bool> TinyStage::ForwardPart(const model::MicroBatch& micro_batch, std::span<float> output,
                                    model::StepLoss* loss) {
  if (shape_.units) return NextForwardPart(micro_batch, output, loss);
  return StageModel::ForwardPart(micro_batch, output, loss);
}

void TinyStage::BackLayer(std::size_t l, Kept* kept) const {
  const std::size_t h = shape_.hidden;
  const float* const w = weights_.data() + LayerOffset(static_cast<std::uint32_t>(l));
  for (std::size_t p = 0; p < kept->x[0].size() / h; ++p) {
    for (std::size_t j = 0; j < h; ++j) {
      const double t = kept->x[l + 1][p * h + j] - kept->x[l][p * h + j];
      const double g = kept->grad[l + 1][p * h + j];
      kept->grad[l][p * h + j] += g;
      for (std::size_t i = 0; i < h; ++i) {
        kept->grad[l][p * h + i] += g * (1 - t * t) * w[i * h + j];
      }
    }
  }
  for (double& value : kept->grad[l]) value = static_cast<float>(value);
}

Result<bool> TinyStage::NextInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                      std::span<float> input_gradient) {
  const auto found = kept_.find(id);
  if (found == kept_.end() || found->second.input_parts_done == input_parts() ||
      found->second.forward_parts_done < forward_parts()) {
    return FailedPrecondition("no forward");
  }
  Kept& kept = found->second;
  const std::size_t h = shape_.hidden;
  const std::size_t places = kept.x[0].size() / h;
  if (input_gradient.size() != (first() ? 0 : places * h)) return InvalidArgument("input gradient");
  if (output_gradient.size() != (last() ? 0 : places * h)) return InvalidArgument("gradient size");
  const std::size_t part = kept.input_parts_done++;
  if (part == 0) kept.grad.assign(kept.x.size(), std::vector<double>(places * h));
  std::vector<double>& top = kept.grad.back();
  if (part == 0 && last()) {
    for (std::size_t p = 0; p < places; ++p) {
      if (kept.labels[p] < 0) continue;
      for (std::size_t i = 0; i < h; ++i) {
        top[p * h + i] = kept.x.back()[p * h + i] - Head()[kept.labels[p] * h + i];
      }
    }
  } else if (part == 0) {
    std::copy(output_gradient.begin(), output_gradient.end(), top.begin());
  }
  const std::size_t below = part + (last() ? 0 : 1);
  if (below > 0) BackLayer(layers() - below, &kept);
  if (part + 1 < input_parts()) return true;
  if (!first()) std::copy(kept.grad[0].begin(), kept.grad[0].end(), input_gradient.begin());
  if (!first() && Fails(id, Fault::kInput)) {
    input_gradient.back() = std::numeric_limits<float>::infinity();
  }
  return false;
}

Status TinyStage::BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                                std::span<float> input_gradient) {
  for (bool more = true; more;) {
    SHOAL_ASSIGN_OR_RETURN(more, NextInputPart(id, output_gradient, input_gradient));
  }
  return Status::Ok();
}

Result<bool> TinyStage::BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                          std::span<float> input_gradient) {
  if (shape_.units) return NextInputPart(id, output_gradient, input_gradient);
  return StageModel::BackwardInputPart(id, output_gradient, input_gradient);
}

// A tensor each.
std::vector<model::UnitLayout> TinyStage::units() const {
  std::vector<model::UnitLayout> units;
  for (const model::TensorLayout& tensor : layout_) {
    if (shape_.units) units.push_back({tensor.name, tensor.offset, tensor.size});
  }
  return units;
}

std::vector<model::UnitUse> TinyStage::unit_uses(model::Pass pass, std::uint32_t,
                                                 std::uint32_t) const {
  std::vector<model::UnitUse> uses;
  if (!shape_.units) return uses;
  const std::size_t head = UnitAt(head_offset_);
  if (pass == model::Pass::kForward && first()) uses.push_back({{0}, {}});
  if (pass == model::Pass::kBackwardInput && last()) uses.push_back({{head}, {}});
  for (std::size_t i = 0; i < layers(); ++i) {
    const bool down = pass == model::Pass::kBackwardInput;
    const std::size_t unit = (first() ? 1 : 0) + (down ? layers() - 1 - i : i);
    const bool gradients = pass == model::Pass::kBackwardWeights;
    uses.push_back(gradients ? model::UnitUse{{}, {unit}} : model::UnitUse{{unit}, {}});
    if (shape_.bias && pass == model::Pass::kForward) {
      uses.back().weights.push_back(UnitAt(bias_offset_));
    }
  }
  if (pass == model::Pass::kForward && last()) uses.push_back({{head}, {}});
  if (pass == model::Pass::kBackwardWeights) {
    uses.emplace_back();
    if (first()) uses.back().gradients.push_back(0);
    if (last() && (!first() || head != 0)) uses.back().gradients.push_back(head);
    if (shape_.bias) uses.back().gradients.push_back(UnitAt(bias_offset_));
  }
  return uses;
}

std::size_t TinyStage::UnitAt(std::size_t offset) const {
  std::size_t unit = 0;
  while (unit + 1 < layout_.size() && layout_[unit + 1].offset <= offset) ++unit;
  return unit;
}

Status TinyStage::HoldUnit(model::StateVector which, std::size_t unit) {
  if (!held_.emplace(which, unit).second || which == model::StateVector::kWeights) {
    return Status::Ok();
  }
  std::fill_n(gradients_.begin() + static_cast<std::ptrdiff_t>(layout_[unit].offset),
              layout_[unit].size, 0.0f);
  return Status::Ok();
}

void TinyStage::ReleaseUnit(model::StateVector which, std::size_t unit) {
  held_.erase({which, unit});
  std::vector<float>& values = which == model::StateVector::kWeights ? weights_ : gradients_;
  std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(layout_[unit].offset),
              layout_[unit].size, std::numeric_limits<float>::quiet_NaN());
}

bool TinyStage::InFiles(model::StateVector which, std::size_t first) const {
  return shape_.units && which == model::StateVector::kWeights &&
         !held_.contains({which, UnitAt(first)});
}

Result<bool> TinyStage::BackwardWeights(MicroBatchId id) {
  const auto found = kept_.find(id);
  if (found == kept_.end() || found->second.input_parts_done < input_parts()) {
    return FailedPrecondition("no backward");
  }
  Kept& kept = found->second;
  const std::size_t h = shape_.hidden;
  const std::size_t places = kept.x[0].size() / h;
  if (const std::size_t l = kept.weight_parts_done++; l + 1 < kept.x.size()) {
    float* const w = gradients_.data() + LayerOffset(static_cast<std::uint32_t>(l));
    std::vector<double> sum(h * h);
    kept.bias_grad.resize(h);
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t j = 0; j < h; ++j) {
        const double t = kept.x[l + 1][p * h + j] - kept.x[l][p * h + j];
        const double g = kept.grad[l + 1][p * h + j] * (1 - t * t);
        kept.bias_grad[j] += g;
        for (std::size_t i = 0; i < h; ++i) sum[i * h + j] += kept.x[l][p * h + i] * g;
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) w[i] += static_cast<float>(sum[i]);
    if (Fails(id, Fault::kHuge)) {
      for (std::size_t i = 0; i < sum.size(); ++i) w[i] += huge_ * static_cast<float>(sum[i]);
    }
    if (Fails(id, Fault::kLayer)) w[l] = std::numeric_limits<float>::quiet_NaN();
    return true;
  }
  for (std::size_t p = 0; p < places; ++p) {
    for (std::size_t i = 0; i < h; ++i) {
      if (first()) {
        gradients_[kept.tokens[p] * h + i] += static_cast<float>(kept.grad[0][p * h + i]);
      }
      if (last() && kept.labels[p] >= 0) {
        gradients_[head_offset_ + kept.labels[p] * h + i] -=
            static_cast<float>(kept.grad.back()[p * h + i]);
      }
    }
  }
  for (std::size_t i = 0; shape_.bias && i < h; ++i) {
    gradients_[bias_offset_ + i] += static_cast<float>(kept.bias_grad[i]);
  }
  if (Fails(id, Fault::kEmbedding)) {
    gradients_[first() ? 0 : head_offset_] = std::numeric_limits<float>::infinity();
  }
  kept_.erase(found);
  return false;
}

std::vector<std::vector<std::size_t>> TinyStage::weight_parts() const {
  std::vector<std::vector<std::size_t>> parts;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < layout_.size(); ++i) {
    if (layout_[i].name.starts_with("layer.")) {
      parts.push_back({i});
    } else {
      ends.push_back(i);
    }
  }
  parts.push_back(std::move(ends));
  return parts;
}

Status TinyStage::Evaluate(const model::MicroBatch& micro_batch, std::span<float> output,
                           model::StepLoss* loss) {
  if (shape_.units) return Unimplemented("a tiny stage that holds units only trains");
  model::MicroBatch apart = micro_batch;
  apart.id = {UINT64_MAX, 0};  // no step's
  SHOAL_RETURN_IF_ERROR(Forward(apart, output, loss));
  kept_.erase(apart.id);
  return Status::Ok();
}

void TinyStage::ZeroGradients() {
  kept_.clear();
  for (std::size_t unit = 0; shape_.units && unit < layout_.size(); ++unit) {
    ReleaseUnit(model::StateVector::kWeights, unit);
    ReleaseUnit(model::StateVector::kGradients, unit);
  }
  if (shape_.units) return;
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
}

std::vector<float>& TinyStage::Of(model::StateVector which) {
  switch (which) {
    case model::StateVector::kWeights: return weights_;
    case model::StateVector::kGradients: return gradients_;
    case model::StateVector::kFirstMoment: return first_moment_;
    case model::StateVector::kSecondMoment: return second_moment_;
  }
  return weights_;
}

Status TinyStage::Read(model::StateVector which, std::size_t first, std::span<float> values) {
  const std::vector<float>& from = InFiles(which, first) ? filed_weights_ : Of(which);
  if (first > from.size() || values.size() > from.size() - first) return OutOfRange("state");
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first), values.size(), values.begin());
  return Status::Ok();
}

Status TinyStage::Write(model::StateVector which, std::size_t first,
                        std::span<const float> values) {
  std::vector<float>& to = InFiles(which, first) ? filed_weights_ : Of(which);
  if (first > to.size() || values.size() > to.size() - first) return OutOfRange("state");
  std::copy(values.begin(), values.end(), to.begin() + static_cast<std::ptrdiff_t>(first));
  return Status::Ok();
}

std::vector<model::TensorLayout> TinyStage::shared_tensors() const {
  if (first() && last()) return {};
  if (shape_.bias) return {layout_.back()};
  if (!shape_.tied || (!first() && !last())) return {};
  return {first() ? layout_.front() : layout_.back()};
}

double TinyStage::SquaredGradientNorm(double scale) {
  const std::vector<model::TensorLayout> shared = shared_tensors();
  double sum = 0;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const bool elsewhere =
        !first() && std::ranges::any_of(shared, [i](const model::TensorLayout& tensor) {
          return i >= tensor.offset && i < tensor.offset + tensor.size;
        });
    if (elsewhere) continue;
    sum += double{gradients_[i]} * gradients_[i];
  }
  return sum * scale * scale;
}

Status TinyStage::Apply(std::uint64_t step, double scale, double global_norm, double rate) {
  if (!kept_.empty()) return FailedPrecondition("micro-batches are still kept");
  if (!std::isfinite(global_norm)) return InvalidArgument("the gradient norm is not finite");
  if (shape_.adamw) {
    const model::OptimizerOptions& o = options_.optimizer;
    const double factor = scale * optimizer::ClipFactor(o.clip_norm, global_norm);
    optimizer::AdamWUpdate(
        optimizer::MakeAdamWStep({o.beta1, o.beta2, o.epsilon, o.weight_decay, rate, factor, step}),
        gradients_, weights_, first_moment_, second_moment_);
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    return Status::Ok();
  }
  const double clip = global_norm > 1.0 ? 1.0 / global_norm : 1.0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] -= static_cast<float>(rate * clip * scale * gradients_[i]);
    gradients_[i] = 0;
  }
  return Status::Ok();
}

std::uint64_t TinyStage::MicroBatchBytes(std::uint32_t rows, std::uint32_t tokens) const {
  return std::uint64_t{rows} * tokens * shape_.hidden * sizeof(float) * 2;
}

std::uint64_t TinyStage::WeightChecksum() const {
  return Checksum64(std::as_bytes(std::span(shape_.units ? filed_weights_ : weights_)));
}

std::vector<float> TinyStage::Layer(std::uint32_t layer) const {
  if (layer < options_.range.first_layer || layer >= options_.range.last_layer) return {};
  const auto from = weights_.begin() + LayerOffset(layer - options_.range.first_layer);
  return {from, from + shape_.hidden * shape_.hidden};
}

std::vector<float> TinyStage::Bias() const {
  return {weights_.begin() + bias_offset_, weights_.begin() + bias_offset_ + shape_.hidden};
}

std::vector<float> TinyStage::Embedding() const {
  return {weights_.begin(), weights_.begin() + embedding_values()};
}

namespace {

class TinyData final : public dataset::PreparedData {
 public:
  TinyData(const TinyShape& shape, std::uint64_t rows) {
    info_.row_tokens = shape.row_tokens;
    info_.train_rows = rows;
    info_.vocabulary = shape.vocabulary;
  }
  const dataset::DataInfo& info() const override { return info_; }
  Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                   std::vector<std::int32_t>* labels,
                   std::vector<std::int32_t>* /*segments*/) const override {
    if (sample.value >= info_.train_rows) return OutOfRange("no such row");
    for (std::uint32_t i = 0; i < info_.row_tokens; ++i) {
      tokens->push_back(Token(sample.value, i));
      const bool masked = sample.value % 3 == 0 && i == 0;
      labels->push_back(masked ? dataset::kIgnoreLabel : Token(sample.value, i + 1));
    }
    return Status::Ok();
  }
  std::uint32_t LabelCount(SampleId sample) const override {
    if (sample.value >= info_.train_rows) return 0;
    return info_.row_tokens - (sample.value % 3 == 0 ? 1 : 0);
  }

 private:
  std::int32_t Token(std::uint64_t row, std::uint32_t i) const {
    return static_cast<std::int32_t>((row * 7 + i * i + 3 * i) % info_.vocabulary);
  }
  dataset::DataInfo info_;
};

}  // namespace

std::shared_ptr<const dataset::PreparedData> NewTinyData(const TinyShape& shape,
                                                         std::uint64_t rows) {
  return std::make_shared<TinyData>(shape, rows);
}

}  // namespace shoal::test_support
