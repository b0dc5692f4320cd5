#include "tests/support/tiny_stage.h"

#include <algorithm>
#include <cmath>
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
  config_.layers = shape.layers;
  config_.hidden = shape.hidden;
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
  for (std::vector<float>* state : {&gradients_, &first_moment_, &second_moment_}) {
    state->assign(weights_.size(), 0.0f);
  }
}

std::size_t TinyStage::LayerOffset(std::uint32_t local) const {
  return (first() ? embedding_values() : 0) + std::size_t{local} * shape_.hidden * shape_.hidden;
}

void TinyStage::RunForward(Kept* kept, model::StepLoss* loss) const {
  const std::size_t h = shape_.hidden;
  const std::size_t places = kept->x[0].size() / h;
  for (std::uint32_t l = 0; l < options_.range.last_layer - options_.range.first_layer; ++l) {
    const float* const w = weights_.data() + LayerOffset(l);
    const std::vector<double>& x = kept->x.back();
    std::vector<double> y(x.size());
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t j = 0; j < h; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < h; ++i) sum += x[p * h + i] * w[i * h + j];
        y[p * h + j] = x[p * h + j] + std::tanh(sum);
      }
    }
    // What crosses a stage border is fp32, so every layer's output is.
    for (double& value : y) value = static_cast<float>(value);
    kept->x.push_back(std::move(y));
  }
  if (!last() || loss == nullptr) return;
  *loss = {};
  for (std::size_t p = 0; p < places; ++p) {
    if (kept->labels[p] < 0) continue;
    ++loss->labels;
    for (std::size_t i = 0; i < h; ++i) {
      const double d = kept->x.back()[p * h + i] - Head()[kept->labels[p] * h + i];
      loss->sum += 0.5 * d * d;
    }
  }
}

Status TinyStage::Forward(const model::MicroBatch& micro_batch, std::span<float> output,
                          model::StepLoss* loss) {
  const std::size_t h = shape_.hidden;
  const std::size_t places = std::size_t{micro_batch.rows} * micro_batch.tokens;
  if (kept_.contains(micro_batch.id)) return FailedPrecondition("a second forward");
  if (output.size() != (last() ? 0 : places * h)) return InvalidArgument("output size");
  Kept kept;
  kept.micro_batch = micro_batch;
  kept.labels.assign(micro_batch.labels.begin(), micro_batch.labels.end());
  if (first()) {
    kept.tokens.assign(micro_batch.token_ids.begin(), micro_batch.token_ids.end());
    if (kept.tokens.size() != places) return InvalidArgument("tokens");
    kept.x.emplace_back(places * h);
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t i = 0; i < h; ++i) {
        kept.x[0][p * h + i] = weights_[kept.tokens[p] * h + i];
      }
    }
  } else {
    if (micro_batch.input.size() != places * h) return InvalidArgument("input size");
    kept.x.emplace_back(micro_batch.input.begin(), micro_batch.input.end());
  }
  if (last() && kept.labels.size() != places) return InvalidArgument("labels");
  RunForward(&kept, loss);
  if (!last()) std::copy(kept.x.back().begin(), kept.x.back().end(), output.begin());
  kept_.emplace(micro_batch.id, std::move(kept));
  return Status::Ok();
}

Status TinyStage::BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                                std::span<float> input_gradient) {
  const auto found = kept_.find(id);
  if (found == kept_.end() || found->second.backward) return FailedPrecondition("no forward");
  Kept& kept = found->second;
  kept.backward = true;
  const std::size_t h = shape_.hidden;
  const std::size_t places = kept.x[0].size() / h;
  kept.grad.assign(kept.x.size(), std::vector<double>(places * h));
  std::vector<double>& top = kept.grad.back();
  if (last()) {
    for (std::size_t p = 0; p < places; ++p) {
      if (kept.labels[p] < 0) continue;
      for (std::size_t i = 0; i < h; ++i) {
        top[p * h + i] = kept.x.back()[p * h + i] - Head()[kept.labels[p] * h + i];
      }
    }
  } else {
    if (output_gradient.size() != top.size()) return InvalidArgument("gradient size");
    std::copy(output_gradient.begin(), output_gradient.end(), top.begin());
  }
  for (std::size_t l = kept.x.size() - 1; l-- > 0;) {
    const float* const w = weights_.data() + LayerOffset(static_cast<std::uint32_t>(l));
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t j = 0; j < h; ++j) {
        const double t = kept.x[l + 1][p * h + j] - kept.x[l][p * h + j];
        const double g = kept.grad[l + 1][p * h + j];
        kept.grad[l][p * h + j] += g;
        for (std::size_t i = 0; i < h; ++i) {
          kept.grad[l][p * h + i] += g * (1 - t * t) * w[i * h + j];
        }
      }
    }
    for (double& value : kept.grad[l]) value = static_cast<float>(value);
  }
  if (input_gradient.size() != (first() ? 0 : places * h)) return InvalidArgument("input gradient");
  if (!first()) std::copy(kept.grad[0].begin(), kept.grad[0].end(), input_gradient.begin());
  return Status::Ok();
}

Result<bool> TinyStage::BackwardWeights(MicroBatchId id) {
  const auto found = kept_.find(id);
  if (found == kept_.end() || !found->second.backward) return FailedPrecondition("no backward");
  Kept& kept = found->second;
  const std::size_t h = shape_.hidden;
  const std::size_t places = kept.x[0].size() / h;
  if (const std::size_t l = kept.weight_parts_done++; l + 1 < kept.x.size()) {
    float* const w = gradients_.data() + LayerOffset(static_cast<std::uint32_t>(l));
    std::vector<double> sum(h * h);
    for (std::size_t p = 0; p < places; ++p) {
      for (std::size_t j = 0; j < h; ++j) {
        const double t = kept.x[l + 1][p * h + j] - kept.x[l][p * h + j];
        const double g = kept.grad[l + 1][p * h + j] * (1 - t * t);
        for (std::size_t i = 0; i < h; ++i) sum[i * h + j] += kept.x[l][p * h + i] * g;
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) w[i] += static_cast<float>(sum[i]);
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

Status TinyStage::Evaluate(const model::MicroBatch&, std::span<float>, model::StepLoss*) {
  return Unimplemented("a tiny stage only trains");
}

void TinyStage::ZeroGradients() {
  kept_.clear();
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
  const std::vector<float>& from = Of(which);
  if (first > from.size() || values.size() > from.size() - first) return OutOfRange("state");
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first), values.size(), values.begin());
  return Status::Ok();
}

Status TinyStage::Write(model::StateVector which, std::size_t first,
                        std::span<const float> values) {
  std::vector<float>& to = Of(which);
  if (first > to.size() || values.size() > to.size() - first) return OutOfRange("state");
  std::copy(values.begin(), values.end(), to.begin() + static_cast<std::ptrdiff_t>(first));
  return Status::Ok();
}

model::TensorLayout TinyStage::tied_embedding() const {
  if (!shape_.tied || first() == last()) return {};
  return first() ? layout_.front() : layout_.back();
}

double TinyStage::SquaredGradientNorm(double scale) {
  const model::TensorLayout tied = tied_embedding();
  double sum = 0;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (last() && i >= tied.offset && i < tied.offset + tied.size) continue;
    sum += double{gradients_[i]} * gradients_[i];
  }
  return sum * scale * scale;
}

Status TinyStage::Apply(std::uint64_t step, double scale, double global_norm, double rate) {
  if (!kept_.empty()) return FailedPrecondition("micro-batches are still kept");
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
  return Checksum64(std::as_bytes(std::span(weights_)));
}

std::vector<float> TinyStage::Layer(std::uint32_t layer) const {
  if (layer < options_.range.first_layer || layer >= options_.range.last_layer) return {};
  const auto from = weights_.begin() + LayerOffset(layer - options_.range.first_layer);
  return {from, from + shape_.hidden * shape_.hidden};
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
                   std::vector<std::int32_t>* labels) const override {
    if (sample.value >= info_.train_rows) return OutOfRange("no such row");
    for (std::uint32_t i = 0; i < info_.row_tokens; ++i) {
      tokens->push_back(Token(sample.value, i));
      const bool masked = sample.value % 3 == 0 && i == 0;
      labels->push_back(masked ? dataset::kIgnoreLabel : Token(sample.value, i + 1));
    }
    return Status::Ok();
  }
  std::uint32_t LabelCount(SampleId sample) const override {
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
