// Marsit's steps, next to a slow reference of all members and to Adam of the mean.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/replica/collective/ring/marsit_reference.h"
#include "tests/unit/replica/momentum_members.h"

namespace shoal::replica {
namespace {

using collective::reference::Floats;
using model::StateVector;

constexpr std::uint64_t kStart = 40;  // exact steps

// Gradients that are clipped, some members' more than others', and values of which one member sees
// anything, once in 40 steps.
StepFacts FactsOf(const GroupShape& shape, std::uint64_t step, std::size_t values) {
  const std::vector<std::uint64_t> labels(shape.pipelines, 8);
  StepFacts facts = MakeStep(shape, step, values, 1.5, labels);
  std::mt19937 random(static_cast<unsigned>(step));
  for (std::uint32_t r = 0; r < shape.pipelines; ++r) {
    const float louder = 1 + static_cast<float>(random() % 5);
    double squares = 0;
    for (std::size_t i = 0; i < values; ++i) {
      float& value = facts.gradients[r][i];
      value *= louder;
      if (i % 7 == 0 && ((step + i) % 40 != 0 || i / 7 % shape.pipelines != r)) value = 0;
      squares += double{value} * value;
    }
    facts.norms[r] = std::sqrt(squares) / 8;
  }
  return facts;
}

double FactorOf(const StepFacts& facts) {
  double squares = 0;
  for (const double norm : facts.norms) squares += norm * norm;
  const double norm = std::sqrt(squares / static_cast<double>(facts.norms.size()));
  return std::min(1.0, kClip / (norm + 1e-6)) / static_cast<double>(OrderOf(facts).labels);
}

optimizer::AdamWStep StepOf(const Member& member, const StepFacts& facts, double factor) {
  optimizer::AdamWOptions options = OptimizerOptionsOf(member, facts.step);
  options.learning_rate = OrderOf(facts).learning_rate;
  options.gradient_factor = factor;
  return optimizer::MakeFrozenStep(options, kStart);
}

// All members in one place: momenta, memories and scales value by value, the ring hop by hop.
class SlowMarsit {
 public:
  // Behind the exact steps, from which `members` take their moments and weights.
  SlowMarsit(MomentumMembers* members, std::uint64_t every)
      : members_(members),
        pipelines_(members->shape_.pipelines),
        variance_(members->Get(StateVector::kSecondMoment)),
        weights_(members->Get(StateVector::kWeights)),
        momenta_(pipelines_, members->Get(StateVector::kFirstMoment)),
        memories_(pipelines_, Floats(weights_.size())),
        scales_(weights_.size(), 1),
        decays_(weights_.size(), 1),
        tensors_(members->models_[0]->layout().begin(), members->models_[0]->layout().end()) {
    options_.every = every;
    options_.seed = 3 + 0x9e3779b97f4a7c15;
    for (const model::TensorLayout& tensor : tensors_) {
      if (tensor.shape.size() < 2) continue;
      const double decay = members->models_[0]->options().optimizer.weight_decay;
      std::fill_n(decays_.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size,
                  static_cast<float>(1 - 1e-3 * decay));
      options_.masked.push_back({tensor.offset, tensor.shape[0], tensor.size / tensor.shape[0]});
    }
  }

  const Values& weights() const { return weights_; }

  void Step(const StepFacts& facts) {
    const bool exact = rounds_++ % options_.every == 0;
    const auto factor = FactorOf(facts) * pipelines_;
    const optimizer::AdamWStep step = StepOf(*members_->members_[0], facts, factor);
    collective::MarsitRates rates{step.step_size, step.step_size * 8};
    const float most = std::max(1.0F, step.one_minus_beta1 / std::sqrt(step.one_minus_beta2));
    std::vector<Floats> inputs(pipelines_, Floats(weights_.size()));
    std::vector<Buffer> vectors;
    std::vector<float> sums(tensors_.size());
    for (std::uint32_t r = 0; r < pipelines_; ++r) {
      for (std::size_t t = 0; t < tensors_.size(); ++t) {
        double sum = 0;
        for (std::size_t i = tensors_[t].offset; i < tensors_[t].offset + tensors_[t].size; ++i) {
          float& m = momenta_[r][i];
          m = m * step.beta1 + facts.gradients[r][i] * step.gradient_factor * step.one_minus_beta1;
          const float root = std::sqrt(variance_[i]) * step.inverse_root_correction2;
          const float bound = most * static_cast<float>(pipelines_);
          const float direction = std::clamp(m / (root + step.epsilon), -bound, bound);
          inputs[r][i] = (variance_[i] > 0 ? direction : 0) / scales_[i];
          sum += std::abs(variance_[i] > 0 ? direction : 0);
        }
        sums[t] += static_cast<float>(sum / static_cast<double>(tensors_[t].size));
      }
      vectors.push_back(
          collective::reference::Open(options_, rates, exact, memories_[r], inputs[r]));
    }
    const std::uint64_t all = (std::uint64_t{1} << pipelines_) - 1;
    const auto merge = collective::MarsitMerge(options_, weights_.size(), exact);
    const Buffer merged =
        collective::reference::MergeAround(vectors, *merge, 2 * (facts.step + 1), all);
    for (std::uint32_t r = 0; r < pipelines_; ++r) {
      const auto closed = collective::reference::Close(options_, rates, exact, pipelines_,
                                                       memories_[r], inputs[r], merged);
      memories_[r] = closed.compensation;
      if (r > 0) continue;
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        weights_[i] = weights_[i] * decays_[i] - closed.update[i] * scales_[i];
      }
    }
    if (exact) TakeScales(sums);
  }

 private:
  void TakeScales(const std::vector<float>& sums) {
    const float largest = *std::ranges::max_element(sums);
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const float scale = std::max(sums[t], largest * 1e-3F) / static_cast<float>(pipelines_);
      std::fill_n(scales_.begin() + static_cast<std::ptrdiff_t>(tensors_[t].offset),
                  tensors_[t].size, scale);
    }
  }

  MomentumMembers* const members_;
  const std::uint32_t pipelines_;
  collective::MarsitOptions options_;
  const Values variance_;
  Values weights_;
  std::vector<Floats> momenta_, memories_;
  Floats scales_, decays_;
  const std::vector<model::TensorLayout> tensors_;
  std::uint64_t rounds_ = 0;
};

double Distance(const Values& a, const Values& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(squares);
}

void Train(MomentumMembers* members, const StepFacts& facts) {
  ASSERT_NO_FATAL_FAILURE(members->Step(facts, [](std::size_t) { return 0; }));
}

// Every (100 / D)th round is exact, a sign is worth eight mean magnitudes, and all members share
// one clipping. A member's own direction counts for 1 / D and may be D times as long.
TEST(MarsitStepTest, UpdatesFollowTheSlowReferenceOfSoManyMembers) {
  for (const std::uint32_t pipelines : {2U, 4U, 8U}) {
    SCOPED_TRACE(testing::Message() << pipelines << " pipelines");
    const GroupShape shape{pipelines};
    MomentumMembers members("marsit:shape=ring,start=" + std::to_string(kStart), shape);
    for (std::uint64_t step = 0; step < kStart; ++step) {
      ASSERT_NO_FATAL_FAILURE(Train(&members, FactsOf(shape, step, members.values())));
    }
    SlowMarsit slow(&members, 100 / pipelines);
    const Values begin = slow.weights();
    for (std::uint64_t step = kStart; step < kStart + 60; ++step) {
      const StepFacts facts = FactsOf(shape, step, members.values());
      ASSERT_NO_FATAL_FAILURE(Train(&members, facts));
      slow.Step(facts);
      ASSERT_LE(Distance(members.Get(StateVector::kWeights), slow.weights()),
                1e-4 * Distance(begin, slow.weights()))
          << "step " << step;
    }
  }
}

// With all rounds exact it is Adam with a frozen variance, of the mean gradient, clipped once.
TEST(MarsitStepTest, ExactRoundsAreAdamOfTheMeanWithAnyNumberOfMembers) {
  for (const std::uint32_t pipelines : {2U, 8U}) {
    SCOPED_TRACE(testing::Message() << pipelines << " pipelines");
    const GroupShape shape{pipelines};
    const std::string start = ",start=" + std::to_string(kStart);
    MomentumMembers members("marsit:every=1" + start, shape);
    MomentumMembers exact("qadam:bits=32" + start, shape);
    const Values begin = members.Get(StateVector::kWeights);
    for (std::uint64_t step = 0; step < 30; ++step) {
      const StepFacts facts = FactsOf(shape, step, members.values());
      ASSERT_NO_FATAL_FAILURE(Train(&members, facts));
      ASSERT_NO_FATAL_FAILURE(Train(&exact, facts));
    }
    const Values expected = exact.Get(StateVector::kWeights);
    EXPECT_LE(Distance(members.Get(StateVector::kWeights), expected),
              0.01 * Distance(begin, expected));
  }
}

}  // namespace
}  // namespace shoal::replica
