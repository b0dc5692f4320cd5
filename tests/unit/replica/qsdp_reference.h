// What steps with sharded optimizer state should make of gradients, in plain loops over values.

#ifndef SHOAL_TESTS_UNIT_REPLICA_QSDP_REFERENCE_H_
#define SHOAL_TESTS_UNIT_REPLICA_QSDP_REFERENCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "replica/replica_step.h"
#include "tests/support/tiny_stage.h"

namespace shoal::replica {

using model::StateVector;
using test_support::TinyShape;
using test_support::TinyStage;
using Values = std::vector<float>;

constexpr double kRate = 1e-2, kClip = 1.0;
constexpr std::uint64_t kLabels = 50;
constexpr std::size_t kFirst = 3200, kBias = 176, kSmall = 100;
constexpr std::size_t kBucket = 64;

// Matrices, a bias and a matrix of few values, in the weights of a TinyStage.
class MixedStage final : public TinyStage {
 public:
  MixedStage()
      : TinyStage(TinyShape{.hidden = 32, .vocabulary = 40, .clip_norm = kClip}, {0, 4}, 5) {
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    for (float& weight : weights()) weight = normal(random);
    const auto add = [this](std::size_t size, std::vector<std::size_t> shape) {
      const std::size_t offset = layout_.empty() ? 0 : layout_.back().offset + layout_.back().size;
      layout_.push_back({"tensor", offset, size, std::move(shape)});
    };
    add(kFirst, {kFirst / 32, 32});
    add(kBias, {kBias});
    add(kSmall, {10, 10});
    const std::size_t rest = state_size() - kFirst - kBias - kSmall;
    add(rest, {1, rest});
  }
  std::span<const model::TensorLayout> layout() const override { return layout_; }

  Values Get(StateVector which) {
    Values values(state_size());
    EXPECT_TRUE(Read(which, 0, values).ok());
    return values;
  }
  // What is final behind how many parts: the last tensor first.
  FinalParts FinalAfterParts() const {
    FinalParts parts;
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      parts[layout_[i].offset] = layout_.size() - i;
    }
    return parts;
  }
  bool Decays(std::size_t i) const { return i < kFirst || i >= kFirst + kBias; }
  // What travels in fp32 with raw_below=200.
  bool Raw(std::size_t i) const { return i >= kFirst && i < kFirst + kBias + kSmall; }

 private:
  std::vector<model::TensorLayout> layout_;
};

// Of a member in a step; the first row of the first tensor is never touched.
inline Values GradientOf(std::size_t member, std::uint64_t step, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + member));
  std::normal_distribution<float> normal;
  Values gradient(count);
  for (std::size_t i = 0; i < count; ++i) gradient[i] = i < 32 ? 0.0F : normal(random);
  return gradient;
}

// As the scheduler says it, of the token mean, from the squared norm of the sum.
inline double GlobalNorm(double squared) { return std::sqrt(squared) / kLabels; }
inline double ClipOf(double squared) { return std::min(1.0, kClip / (GlobalNorm(squared) + 1e-6)); }

// AdamW of the summed gradients, in fp64, value by value.
struct Reference {
  explicit Reference(MixedStage* model) : stage(model) {
    const Values weights = model->Get(StateVector::kWeights);
    w.assign(weights.begin(), weights.end());
    m.assign(w.size(), 0);
    v.assign(w.size(), 0);
  }
  // Clipped by `clip`, which is that of the sum's own norm unless it was quantised.
  void Step(const std::vector<std::size_t>& members, std::uint64_t step, double clip) {
    const model::OptimizerOptions& o = stage->options().optimizer;
    std::vector<double> sum(w.size());
    for (const std::size_t member : members) {
      const Values gradient = GradientOf(member, step, w.size());
      for (std::size_t i = 0; i < w.size(); ++i) sum[i] += gradient[i];
    }
    squared_norm = 0;
    for (const double value : sum) squared_norm += value * value;
    const double count = static_cast<double>(step) + 1;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = clip * sum[i] / kLabels;
      if (stage->Decays(i)) w[i] -= kRate * o.weight_decay * w[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      w[i] -= kRate * (m[i] / (1 - std::pow(o.beta1, count))) /
              (std::sqrt(v[i] / (1 - std::pow(o.beta2, count))) + o.epsilon);
    }
  }
  MixedStage* stage;
  std::vector<double> w, m, v;
  double squared_norm = 0;
};

}  // namespace shoal::replica

#endif  // SHOAL_TESTS_UNIT_REPLICA_QSDP_REFERENCE_H_
