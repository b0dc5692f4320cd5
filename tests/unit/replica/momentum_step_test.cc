// Momenta that are exchanged during the backward, compared with a reference in double, and with an
// exchange that knows all factors from its beginning.

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <limits>
#include <random>

#include "tests/unit/replica/collective/exchange_reference.h"
#include "tests/unit/replica/momentum_members.h"

namespace shoal::replica {
namespace {

using model::StateVector;

constexpr std::uint64_t kStart = 3;  // exact steps
constexpr std::uint64_t kSteps = 30;

// Norms are above the clipping in exact steps, later above and below it, and labels differ. One
// step has a wild gradient, one a third of the labels, one lacks a pipeline (and so has other
// owners). In some steps nothing changes.
StepFacts FactsOf(const GroupShape& shape, std::uint64_t step, std::size_t values) {
  std::mt19937 random(static_cast<unsigned>(step));
  const bool calm = step >= 5 && step < 14;
  std::vector<std::uint64_t> labels;
  for (std::uint32_t p = 0; p < shape.pipelines; ++p) {
    labels.push_back(calm ? 8 : step == 18 ? 2 : 6 + random() % 4);
  }
  const double wild = step < kStart ? 4.5 : 1.5 + static_cast<double>(random() % 4);
  const double scale = calm || step == 18 ? 0.5 : wild;
  StepFacts facts = MakeStep(shape, step, values, scale, labels);
  if (step == 15) {
    for (float& value : facts.gradients.at(1 % shape.pipelines)) value *= 1000;
    facts.norms.at(1 % shape.pipelines) *= 1000;
  }
  if (step == 22 && shape.pipelines > 1) facts.counted = {0, 1};
  return facts;
}

double ClipOf(const StepFacts& facts) {
  double squares = 0;
  for (const std::uint32_t p : facts.counted) squares += facts.norms[p] * facts.norms[p];
  const double norm = std::sqrt(squares / static_cast<double>(facts.counted.size()));
  return std::min(1.0, kClip / (norm + 1e-6));
}

// What the method is without quantisation: one gradient, clipped, and Adam's moments.
struct Algebra {
  explicit Algebra(std::size_t values) : m(values), v(values) {}

  void Step(const GroupShape& shape, const StepFacts& facts, bool exact) {
    const double factor = ClipOf(facts) / static_cast<double>(OrderOf(facts).labels);
    norm = 0;
    for (std::size_t i = 0; i < m.size(); ++i) {
      double g = 0;
      for (const std::uint32_t p : facts.counted) {
        for (std::uint32_t end = 0; end < shape.ends; ++end) {
          g += facts.gradients[end * shape.pipelines + p][i];
        }
      }
      g *= factor;
      m[i] = 0.9 * m[i] + 0.1 * g;
      if (exact) v[i] = 0.999 * v[i] + 0.001 * g * g;
      norm += exact ? g * g : m[i] * m[i];
    }
    norm *= std::pow(static_cast<double>(OrderOf(facts).labels), 2);
  }
  std::vector<double> m, v;
  double norm = 0;  // squared, in the unit of a gradient sum
};

void ExpectNear(const Values& values, const std::vector<double>& expected, double tolerance) {
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += (values[i] - expected[i]) * (values[i] - expected[i]);
    all += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(squares), tolerance * std::sqrt(all));
}

TEST(MomentumStepTest, WithoutLossItIsAdamOfTheClippedMean) {
  for (const GroupShape shape : {GroupShape{3, 1, 256}, GroupShape{3, 2, 256},
                                 GroupShape{2, 3, 256}, GroupShape{1, 1, 256}}) {
    for (const bool refresh : {false, true}) {
      SCOPED_TRACE(testing::Message() << shape.ends << " ends, refresh " << refresh);
      const std::string method =
          "qadam:bits=32,start=" + std::to_string(kStart) + (refresh ? ",refresh=on" : "");
      MomentumMembers members(method, shape);
      Algebra algebra(members.values());
      const optimizer::VarianceSchedule schedule{kStart, refresh};
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        const StepFacts facts = FactsOf(shape, step, members.values());
        const bool exact = optimizer::UpdatesVariance(schedule, step);
        members.Step(facts, [&](std::size_t r) { return (step + r) % (members.parts() + 1); });
        if (testing::Test::HasFatalFailure()) return;
        algebra.Step(shape, facts, exact);
        ExpectNear(members.Get(StateVector::kFirstMoment), algebra.m, 1e-5);
        ExpectNear(members.Get(StateVector::kSecondMoment), algebra.v, 1e-5);
        EXPECT_NEAR(**members.norms_[0], algebra.norm, 1e-4 * algebra.norm);
        ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
      }
    }
  }
}

// The bits of the method with one bucket: folds, an exchange, and what counts of both.
class Reference {
 public:
  Reference(const GroupShape& shape, MomentumMembers* members, const std::string& method)
      : shape_(shape),
        members_(members),
        m_(members->values()),
        exchange_(ConfigOf(method), shape.pipelines, 1 << 20) {}

  const Values& m() const { return m_; }
  // Behind an exact step, which gives m in any other way.
  void Exact(const StepFacts& facts) {
    Remember(facts);
    m_ = members_->Get(StateVector::kFirstMoment);
  }
  void Step(const StepFacts& facts) {
    const double assumed = factors_.empty() ? 0 : *std::ranges::max_element(factors_);
    const double factor = Remember(facts);
    const bool all = facts.counted.size() == shape_.pipelines;
    double fold = assumed, blend = factor / assumed;
    collective::ExchangeRequest request;
    request.round = 2 * facts.step + 1;
    if (!all || blend > collective::kBlendMost) {
      ++request.round;
      ++(all ? grew_ : wrong_);
      fold = factor;
      blend = 1;
    } else {
      ++(blend == 1 ? same_ : blend < 1 ? less_ : more_);
    }
    request.weights.assign(shape_.pipelines, 0);
    for (const std::uint32_t p : facts.counted) request.weights[p] = 1;
    request.combine = collective::Combine::kWeightedMean;
    optimizer::AdamWOptions options = OptimizerOptionsOf(*members_->members_[0], facts.step);
    options.gradient_factor = fold;
    const optimizer::AdamWStep constants = optimizer::MakeAdamWStep(options);
    std::vector<Values> folds(shape_.pipelines, m_);
    for (std::size_t p = 0; p < folds.size(); ++p) {
      optimizer::FoldMomentum(constants, facts.gradients[p], folds[p]);
    }
    const Values mean = exchange_.Round(request, folds);
    const auto part = static_cast<float>(blend);
    for (std::size_t i = 0; i < m_.size(); ++i) {
      const float kept = m_[i] * constants.beta1;
      m_[i] = blend == 1 ? mean[i] : kept + (mean[i] - kept) * part;
    }
    exchange_.Commit(part);
  }

  int grew_ = 0, wrong_ = 0, same_ = 0, less_ = 0, more_ = 0;  // steps

 private:
  static collective::ExchangeConfig ConfigOf(const std::string& method) {
    collective::ExchangeConfig config;
    config.codec = ParseReplicaMethod(method)->codec;
    config.error_feedback = true;
    config.row = kReplicaRow;
    config.seed = 3;
    return config;
  }
  double Remember(const StepFacts& facts) {
    factors_.push_back(ClipOf(facts) * (static_cast<double>(facts.counted.size()) /
                                        static_cast<double>(OrderOf(facts).labels)));
    if (factors_.size() > 4) factors_.pop_front();
    return factors_.back();
  }

  const GroupShape shape_;
  MomentumMembers* const members_;
  Values m_;
  std::deque<double> factors_;
  collective::ExchangeReference exchange_;
};

class MomentumMethods : public testing::TestWithParam<const char*> {
 protected:
  std::string Method(const std::string& more = "") const {
    return std::string(GetParam()) + ",start=" + std::to_string(kStart) + more;
  }
};

TEST_P(MomentumMethods, EveryStepHasTheBitsOfTheReference) {
  const GroupShape shape{3, 1, 1 << 20};
  MomentumMembers members(Method(), shape);
  Reference reference(shape, &members, Method());
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const StepFacts facts = FactsOf(shape, step, members.values());
    ASSERT_NO_FATAL_FAILURE(
        members.Step(facts, [&](std::size_t r) { return (step + r) % (members.parts() + 1); }));
    step < kStart ? reference.Exact(facts) : reference.Step(facts);
    ASSERT_EQ(members.Get(StateVector::kFirstMoment), reference.m()) << "step " << step;
  }
  EXPECT_GT(reference.grew_, 0);
  EXPECT_EQ(reference.wrong_, 1);
  EXPECT_GT(reference.same_, 3);
  EXPECT_GT(reference.less_, 3);
  EXPECT_GT(reference.more_, 0);
}

// Members may be anywhere in their backward when others are through, and Reduce brings the rest.
// This holds also where exchanges had begun in vain, because fewer members count or by a much
// larger factor.
TEST_P(MomentumMethods, ResultsDoNotDependOnWhatWasEarly) {
  for (const GroupShape shape : {GroupShape{3, 1, 256}, GroupShape{2, 2, 600}}) {
    for (const char* refresh : {"", ",refresh=on"}) {
      MomentumMembers early(Method(refresh), shape), late(Method(refresh), shape);
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        StepFacts facts = FactsOf(shape, step, early.values());
        if (step == 22) facts.counted = {0};
        ASSERT_NO_FATAL_FAILURE(
            early.Step(facts, [&](std::size_t r) { return (step + 2 * r) % (early.parts() + 1); }));
        ASSERT_NO_FATAL_FAILURE(late.Step(facts, [](std::size_t) { return 0; }));
        for (const StateVector which :
             {StateVector::kWeights, StateVector::kFirstMoment, StateVector::kSecondMoment}) {
          ASSERT_EQ(early.Get(which), late.Get(which)) << "step " << step;
        }
        for (std::size_t r = 0; r < early.size(); ++r) {
          EXPECT_EQ(**early.norms_[r], **late.norms_[r]);
          EXPECT_EQ(**early.norms_[r], **early.norms_[r / shape.pipelines * shape.pipelines]);
        }
      }
    }
  }
}

TEST_P(MomentumMethods, BucketsTravelBeforeReduce) {
  const GroupShape shape{3, 1, 1};
  MomentumMembers members(Method(), shape);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const StepFacts facts = FactsOf(shape, step, members.values());
    members.messages_ = 0;
    for (std::size_t r = 0; r < 3; ++r) members.Backward(r, facts, members.parts());
    const std::size_t early = members.messages_;
    EXPECT_GT(early, 0u);
    ASSERT_NO_FATAL_FAILURE(members.Reduce(facts));
    // Clipping ends in step 4, labels fall to a third in 18, and in 22 a pipeline does not count.
    if (step >= 6 && step < 18) {
      EXPECT_EQ(members.messages_, early) << "Reduce found all done, step " << step;
    }
    if (step == 4 || step == 18 || step == 22) {
      EXPECT_GT(members.messages_, early);
    }
    ASSERT_NO_FATAL_FAILURE(members.Apply(facts));
  }
}

// The compute thread reads and writes the model; arithmetic on all values is on as many threads as
// there are codecs, a bucket each.
TEST_P(MomentumMethods, WorkAroundAnExchangeIsNotOnTheComputeThread) {
  const GroupShape shape{3, 1, 1};
  MomentumMembers members(Method(), shape);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const StepFacts facts = FactsOf(shape, step, members.values());
    ASSERT_NO_FATAL_FAILURE(members.Reduce(facts));
    ASSERT_NO_FATAL_FAILURE(members.Apply(facts));
  }
  for (const std::string task : {"momentum.fold", "momentum.scale"}) {
    EXPECT_TRUE(members.ran_.contains("codec " + task)) << task;
    EXPECT_FALSE(members.ran_.contains("compute " + task)) << task;
  }
}

// A wild gradient moves the momentum by what clipping leaves of it, and is forgotten as that is.
TEST_P(MomentumMethods, AWildGradientLeavesNoMoreThanClippingDoes) {
  const GroupShape shape{3, 1, 256};
  MomentumMembers members(Method(), shape);
  Algebra algebra(members.values());
  double calm = 0;  // most that momenta are away from what they should be
  for (std::uint64_t step = 0; step < 50; ++step) {
    StepFacts facts = MakeStep(shape, step, members.values(), 0.9 * kClip, {8, 8, 8});
    if (step == 30) {
      for (Values& gradient : facts.gradients) {
        for (float& value : gradient) value *= 1000;
      }
      for (double& norm : facts.norms) norm *= 1000;
    }
    ASSERT_NO_FATAL_FAILURE(members.Step(facts, [&](std::size_t) { return members.parts(); }));
    algebra.Step(shape, facts, step < kStart);
    const Values m = members.Get(StateVector::kFirstMoment);
    double squares = 0;
    for (std::size_t i = 0; i < m.size(); ++i) squares += std::pow(m[i] - algebra.m[i], 2);
    if (step < 30) calm = std::max(calm, std::sqrt(squares));
    EXPECT_LE(std::sqrt(squares), 2 * calm) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, MomentumMethods,
                         testing::Values("onebit:bucket=64", "qadam:bits=4,bucket=64",
                                         "qadam:bits=8,bucket=64"));

// Nothing is known of a generation's factors before its first Reduce.
TEST(MomentumStepTest, TheFirstFoldOfAGenerationWaitsForReduce) {
  const GroupShape shape{3, 1, 256, 2};
  MomentumMembers members("onebit:bucket=64,start=2", shape);
  Algebra algebra(members.values());
  for (std::uint64_t step = 10; step < 12; ++step) {
    const StepFacts facts = FactsOf(shape, step, members.values());
    members.messages_ = 0;
    for (std::size_t r = 0; r < 3; ++r) members.Backward(r, facts, members.parts());
    EXPECT_EQ(members.messages_ > 0, step == 11);
    ASSERT_NO_FATAL_FAILURE(members.Reduce(facts));
    ASSERT_NO_FATAL_FAILURE(members.Apply(facts));
  }
}

// Its members are at any point of Reduce, or before it, when a step is dealt out again, to fewer.
TEST_P(MomentumMethods, AReopenedStepIsAsIfItHadNeverBegun) {
  const GroupShape shape{3, 1, 256};
  const std::string method = std::string(GetParam()) + ",start=" + std::to_string(kStart);
  int reduced = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    MomentumMembers twice(method, shape), once(method, shape);
    for (std::uint64_t step = 0; step < 16; ++step) {
      StepFacts facts = FactsOf(shape, step, twice.values());
      const bool amended = step >= 1 && random() % 3 == 0;
      const auto begin = [&](MomentumMembers* members) {
        for (std::size_t r = 0; r < 3; ++r) members->Backward(r, facts, members->parts());
      };
      if (!amended || random() % 2 == 0) begin(&twice);
      if (!amended) {
        begin(&once);
      } else {
        reduced += twice.BeginReduce(facts, std::chrono::microseconds(random() % 4000), random);
        facts.counted = {0, 1};
        for (MomentumMembers* const members : {&twice, &once}) members->Amend(facts.counted);
        for (std::size_t r = 0; r < 3; ++r) {
          ASSERT_EQ(twice.Get(StateVector::kGradients, r), facts.gradients[r]) << r;
        }
      }
      for (MomentumMembers* const members : {&twice, &once}) {
        ASSERT_NO_FATAL_FAILURE(members->Reduce(facts));
        ASSERT_NO_FATAL_FAILURE(members->Apply(facts));
      }
      ASSERT_EQ(**twice.norms_[0], **once.norms_[0]);
      for (const auto which :
           {StateVector::kWeights, StateVector::kFirstMoment, StateVector::kSecondMoment}) {
        ASSERT_EQ(twice.Get(which), once.Get(which)) << "step " << step;
      }
    }
  }
  EXPECT_GT(reduced, 20);
}

TEST(MomentumStepTest, AnErrorBeforeReduceIsItsAnswer) {
  const GroupShape shape{2, 1, 1};
  MomentumMembers members("onebit:bucket=64,start=1", shape);
  for (std::uint64_t step = 0; step < 2; ++step) {
    ASSERT_NO_FATAL_FAILURE(
        members.Step(FactsOf(shape, step, members.values()), [](std::size_t) { return 0; }));
  }
  const StepFacts facts = FactsOf(shape, 2, members.values());
  members.group_.tap = test_support::MemoryGroup::Garble;
  for (std::size_t r = 0; r < 2; ++r) {
    members.control_->Post("final", [&, r] { members.steps_[r]->OnFinalGradients(2, 1); });
  }
  members.Settle();
  std::vector<std::optional<Result<double>>> norms(2);
  for (std::size_t r = 0; r < 2; ++r) {
    members.control_->Post("reduce", [&, r] {
      members.steps_[r]->Reduce(OrderOf(facts),
                                [&, r](Result<double> norm) { norms[r] = std::move(norm); });
      EXPECT_FALSE(norms[r].has_value()) << "comes in a task of its own";
    });
  }
  members.Settle();
  // Who fails first sends nothing more, so that the other may wait on.
  EXPECT_TRUE(norms[0].has_value() || norms[1].has_value());
  for (const auto& norm : norms) {
    if (!norm.has_value()) continue;
    ASSERT_FALSE(norm->ok());
    EXPECT_NE(norm->status().message().find("stage group"), std::string::npos)
        << norm->status().ToString();
  }
}

// Whoever else asks for memory between two steps gets none of what a step works in.
TEST(ReplicaStep, ReusesItsMemoryInEveryStep) {
  for (const char* method :
       {"average", "average:dtype=bf16", "powersgd:rank=2,start=2", "qadam:bits=8,start=2",
        "onebit:start=2", "marsit:start=2,every=4", "qsdp:weights=8,gradients=8"}) {
    SCOPED_TRACE(method);
    MomentumMembers members(method, {});
    std::vector<Buffer> taken;
    std::set<const float*> places, later;
    for (std::uint64_t step = 0; step < 20; ++step) {
      const StepFacts facts = MakeStep(members.shape_, step, members.values(), 1, {8, 8, 8});
      ASSERT_NO_FATAL_FAILURE(members.Step(facts, [](std::size_t) { return 0; }));
      if (step >= 3) (step < 11 ? places : later).merge(members.worked_in_);
      for (std::size_t bytes = 64; bytes <= 4096; bytes += 64) {
        for (int i = 0; i < 20; ++i) taken.emplace_back(bytes);
      }
    }
    std::erase_if(later, [&](const float* place) { return places.contains(place); });
    EXPECT_EQ(later.size(), 0u) << "of " << places.size();
  }
}

}  // namespace
}  // namespace shoal::replica
