// Buckets of gradients that travel while the backward goes on, next to plain sums.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>

#include "replica/gradient_buckets.h"
#include "replica/reduction_shares.h"
#include "replica/replica_step.h"
#include "replica/step_registry.h"
#include "tests/support/memory_group.h"
#include "tests/support/tiny_stage.h"

namespace shoal::replica {
namespace {

using model::StateVector;
using test_support::MemoryGroup;
using test_support::SimWorld;
using test_support::TinyShape;
using test_support::TinyStage;
using Values = std::vector<float>;

constexpr std::uint64_t kLabels = 7;

TinyShape Shape() { return {.layers = 5, .hidden = 16, .vocabulary = 40, .adamw = true}; }

Values GradientOf(std::size_t member, std::uint64_t step, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(100 * step + member));
  std::normal_distribution<float> normal;
  Values gradient(count);
  for (float& value : gradient) value = normal(random);
  return gradient;
}

// In the order of the members, value by value.
Values SumOf(const std::vector<std::uint32_t>& members, std::uint64_t step, std::size_t count) {
  Values sum(count);
  for (const std::uint32_t member : members) {
    const Values gradient = GradientOf(member, step, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += gradient[i];
  }
  return sum;
}

// A stage group whose members have models of their own.
class Members {
 public:
  Members(std::size_t count, const std::string& method, std::uint64_t values_min)
      : control_(world_.NewExecutor("control", [](const char*) { return Duration(1000); })),
        compute_(world_.NewExecutor("compute", [](const char*) { return Duration(1000); })),
        codec_(world_.NewExecutor("codec", [](const char*) { return Duration(1000); })),
        group_(&world_, control_.get(), count,
               [this] { return Duration(1000 * (1 + random_() % 50)); }) {
    const auto parsed = ParseReplicaMethod(method);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    group_.tap = [this](MemoryGroup::Message*) {
      ++messages_;
      return true;
    };
    for (std::size_t r = 0; r < count; ++r) {
      models_.push_back(std::make_unique<TinyStage>(Shape(), model::StageRange{0, 5}, 5));
      MemberConfig config;
      config.seed = 3;
      config.steps = 100;
      config.pipeline = static_cast<std::uint32_t>(r);
      config.pipelines = static_cast<std::uint32_t>(count);
      config.bucket_values_min = values_min;
      Member member{.config = config,
                    .control = control_.get(),
                    .compute = compute_.get(),
                    .codec = codec_.get(),
                    .model = models_[r].get()};
      members_.push_back(std::make_unique<Member>(std::move(member)));
      const auto layout = models_[r]->layout();
      ReplicaContext context{members_.back().get(), nullptr, {}, *parsed};
      context.parts.push_back(
          MakeParameterGroup({layout.begin(), layout.end()}, group_.member(r), 1));
      context.final_after = FinalAfter({layout.begin(), layout.end()}, models_[r]->weight_parts());
      auto step = NewReplicaStep(std::move(context));
      EXPECT_TRUE(step.ok()) << step.status().ToString();
      steps_.push_back(std::move(*step));
    }
  }
  ~Members() {
    steps_.clear();
    Settle();
  }

  std::size_t values() const { return models_[0]->state_size(); }
  void Settle() {
    world_.RunUntil([] { return false; }, std::chrono::hours(1));
  }
  // The end of the backward, part by part, as the model makes it: what is not final is not there.
  void Backward(std::size_t member, std::uint64_t step, std::size_t parts) {
    const Values gradient = GradientOf(member, step, values());
    const auto weight_parts = models_[member]->weight_parts();
    for (std::size_t part = 0; part < parts; ++part) {
      for (const std::size_t entry : weight_parts[part]) {
        const model::TensorLayout& tensor = models_[member]->layout()[entry];
        EXPECT_TRUE(models_[member]
                        ->Write(StateVector::kGradients, tensor.offset,
                                std::span(gradient).subspan(tensor.offset, tensor.size))
                        .ok());
      }
      control_->Post("final", [this, member, step, part] {
        steps_[member]->OnFinalGradients(step, part + 1);
      });
      Settle();
    }
  }
  std::size_t parts() const { return models_[0]->weight_parts().size(); }
  // Posts Reduce to all and waits for all; the sums that the models have then.
  std::vector<Values> Reduce(std::uint64_t step, const std::vector<std::uint32_t>& pipelines,
                             const std::vector<std::uint32_t>& exact_stages = {}) {
    norms_.assign(models_.size(), std::nullopt);
    for (std::size_t r = 0; r < models_.size(); ++r) {
      ReduceOrder order;
      order.step = step;
      order.labels = kLabels;
      order.pipelines = pipelines;
      order.exact_stages = exact_stages;
      control_->Post("reduce", [this, r, order] {
        steps_[r]->Reduce(order, [this, r](Result<double> norm) { norms_[r] = std::move(norm); });
      });
    }
    Settle();
    std::vector<Values> sums;
    for (std::size_t r = 0; r < models_.size(); ++r) {
      EXPECT_TRUE(norms_[r].has_value() && norms_[r]->ok()) << "member " << r;
      sums.emplace_back(values());
      EXPECT_TRUE(models_[r]->Read(StateVector::kGradients, 0, sums.back()).ok());
    }
    return sums;
  }
  void Apply(std::uint64_t step) {
    for (std::size_t r = 0; r < models_.size(); ++r) {
      control_->Post("apply", [this, r, step] {
        steps_[r]->Apply({step, 1, 1e-3, kLabels},
                         [](const Status& status) { EXPECT_TRUE(status.ok()); });
      });
    }
    Settle();
    for (std::size_t r = 1; r < models_.size(); ++r) {
      EXPECT_EQ(models_[r]->WeightChecksum(), models_[0]->WeightChecksum());
    }
  }

  SimWorld world_;
  std::mt19937 random_{4};
  std::unique_ptr<Executor> control_, compute_, codec_;
  MemoryGroup group_;
  std::size_t messages_ = 0;
  std::vector<std::unique_ptr<TinyStage>> models_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<ReplicaStep>> steps_;
  std::vector<std::optional<Result<double>>> norms_;
};

TEST(GradientBucketsTest, EachTensorIsInTheBucketThatIsFinalWithIt) {
  const TinyStage stage(Shape(), {0, 5}, 5);
  const std::vector<model::TensorLayout> layout(stage.layout().begin(), stage.layout().end());
  const FinalParts final_after = FinalAfter(layout, stage.weight_parts());
  const std::pair<std::uint64_t, std::size_t> cases[] = {
      {1, 6}, {256, 6}, {257, 3}, {600, 2}, {100000, 1}};
  for (const auto& [values_min, count] : cases) {
    const auto part = MakeParameterGroup(layout, nullptr, 1);
    const std::vector<GradientBucket> buckets = CutBuckets(part, final_after, values_min);
    std::set<std::string> seen;
    std::size_t values = 0, before = 0;
    for (const GradientBucket& bucket : buckets) {
      EXPECT_GT(bucket.final_after, before);
      for (const model::TensorLayout& tensor : bucket.part->tensors) {
        EXPECT_TRUE(seen.insert(tensor.name).second) << tensor.name;
        const auto found = std::find_if(
            layout.begin(), layout.end(),
            [&](const model::TensorLayout& entry) { return entry.name == tensor.name; });
        EXPECT_LE(final_after.at(found->offset), bucket.final_after);
        EXPECT_GT(final_after.at(found->offset), before);
      }
      EXPECT_TRUE(&bucket == &buckets.back() || bucket.part->values >= values_min);
      values += bucket.part->values;
      before = bucket.final_after;
    }
    EXPECT_EQ(seen.size(), layout.size());
    EXPECT_EQ(values, part->values);
    // Layers of 256 values and the embedding of 640.
    EXPECT_EQ(buckets.size(), count);
  }
}

TEST(GradientBucketsTest, OneThatIsNeverEarlyWhereNothingIsKnown) {
  const TinyStage stage(Shape(), {0, 5}, 5);
  const auto part = MakeParameterGroup({stage.layout().begin(), stage.layout().end()}, nullptr, 1);
  const std::vector<GradientBucket> buckets = CutBuckets(part, {}, 1);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].part, part);
  EXPECT_GT(buckets[0].final_after, 1u << 30);
}

TEST(GradientStepTest, BucketsTravelBeforeReduce) {
  Members members(3, "average", 1);
  for (std::uint64_t step = 0; step < 3; ++step) {
    members.messages_ = 0;
    for (std::size_t r = 0; r < 3; ++r) members.Backward(r, step, members.parts());
    const std::size_t early = members.messages_;
    EXPECT_GT(early, 0u);
    const Values expected = SumOf({0, 1, 2}, step, members.values());
    for (const Values& sum : members.Reduce(step, {0, 1, 2})) EXPECT_EQ(sum, expected);
    EXPECT_EQ(members.messages_, early) << "Reduce found all of it done";
    members.Apply(step);
  }
}

TEST(GradientStepTest, TheModelKeepsItsOwnGradientsUntilReduce) {
  Members members(2, "average", 1);
  for (std::size_t r = 0; r < 2; ++r) members.Backward(r, 0, members.parts());
  for (std::size_t r = 0; r < 2; ++r) {
    Values own(members.values());
    ASSERT_TRUE(members.models_[r]->Read(StateVector::kGradients, 0, own).ok());
    EXPECT_EQ(own, GradientOf(r, 0, members.values()));
  }
}

// Members may be anywhere in their backward when others are through, and Reduce brings the rest.
TEST(GradientStepTest, SumsDoNotDependOnWhatWasEarly) {
  for (const char* method : {"average", "average:codec=direct:bits=4/bucket=64,feedback=true",
                             "average:codec=dithered:step=0.3", "powersgd:rank=2,start=2"}) {
    SCOPED_TRACE(method);
    Members early(3, method, 256), late(3, method, 256);
    for (std::uint64_t step = 0; step < 4; ++step) {
      for (std::size_t r = 0; r < 3; ++r) {
        early.Backward(r, step, (step + 2 * r) % (early.parts() + 1));
        for (Members* members : {&early, &late}) {
          const Values gradient = GradientOf(r, step, members->values());
          ASSERT_TRUE(members->models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
        }
      }
      const std::vector<Values> expected = late.Reduce(step, {0, 1, 2});
      const std::vector<Values> sums = early.Reduce(step, {0, 1, 2});
      EXPECT_EQ(sums, expected);
      EXPECT_EQ(sums[0], sums[1]);
      EXPECT_EQ(**early.norms_[0], **late.norms_[0]);
      early.Apply(step);
      late.Apply(step);
    }
  }
}

// Equal gradients in two buckets are not rounded alike.
TEST(GradientStepTest, BucketsDrawNumbersOfTheirOwn) {
  for (const char* method : {"average:codec=direct:bits=2/bucket=64/levels=affine/"
                             "rounding=stochastic",
                             "average:codec=dithered:step=1"}) {
    SCOPED_TRACE(method);
    Members members(2, method, 1);
    constexpr std::size_t kLayer = 256;
    std::vector<std::size_t> layers;
    for (const model::TensorLayout& tensor : members.models_[0]->layout()) {
      if (tensor.size == kLayer) layers.push_back(tensor.offset);
    }
    for (std::size_t r = 0; r < 2; ++r) {
      Values gradient = GradientOf(r, 0, members.values());
      std::copy_n(gradient.begin() + static_cast<std::ptrdiff_t>(layers[0]), kLayer,
                  gradient.begin() + static_cast<std::ptrdiff_t>(layers[1]));
      ASSERT_TRUE(members.models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
    }
    const Values sum = members.Reduce(0, {0, 1})[0];
    std::size_t different = 0;
    for (std::size_t i = 0; i < kLayer; ++i) {
      different += sum[layers[0] + i] != sum[layers[1] + i] ? 1 : 0;
    }
    EXPECT_GT(different, kLayer / 4);
  }
}

// Exchanges may have begun in the belief that all members count. The sum is that of the members who
// do. Errors that are fed back are those of a group that never believed it.
TEST(GradientStepTest, AWrongGuessLeavesNoTrace) {
  for (const char* method : {"average", "average:codec=direct:bits=4/bucket=64,feedback=true",
                             "powersgd:rank=2,start=2"}) {
    SCOPED_TRACE(method);
    Members guessed(3, method, 256), told(3, method, 256);
    for (std::uint64_t step = 0; step < 5; ++step) {
      const std::vector<std::uint32_t> pipelines =
          step % 2 == 1 ? std::vector<std::uint32_t>{0, 2} : std::vector<std::uint32_t>{0, 1, 2};
      for (std::size_t r = 0; r < 3; ++r) {
        for (Members* members : {&guessed, &told}) {
          const Values gradient = GradientOf(r, step, members->values());
          ASSERT_TRUE(members->models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
        }
        if (step == 1) guessed.Backward(r, step, guessed.parts());
        if (step == 3) guessed.Backward(r, step, r + 2);
      }
      const std::vector<Values> expected = told.Reduce(step, pipelines);
      const std::vector<Values> sums = guessed.Reduce(step, pipelines);
      EXPECT_EQ(sums, expected);
      if (std::string(method) == "average") {
        EXPECT_EQ(sums[0], SumOf(pipelines, step, guessed.values()));
      }
      guessed.Apply(step);
      told.Apply(step);
    }
  }
}

// With stages=auto a step is begun as the one before; the step in which the scheduler has decided
// is exchanged again.
TEST(GradientStepTest, AutomaticStagesTravelBeforeReduce) {
  using Exact = std::vector<std::uint32_t>;
  Members automatic(3, "powersgd:rank=2,start=2,stages=auto", 256);
  Members told(3, "powersgd:rank=2,start=4", 256);
  for (std::uint64_t step = 0; step < 7; ++step) {
    const Exact exact = step < 4 ? Exact{0} : Exact{};
    automatic.messages_ = 0;
    for (std::size_t r = 0; r < 3; ++r) automatic.Backward(r, step, automatic.parts());
    for (std::size_t r = 0; r < 3; ++r) {
      const Values gradient = GradientOf(r, step, told.values());
      ASSERT_TRUE(told.models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
    }
    const std::size_t early = automatic.messages_;
    EXPECT_GT(early, 0u) << step;
    EXPECT_EQ(automatic.Reduce(step, {0, 1, 2}, exact), told.Reduce(step, {0, 1, 2})) << step;
    if (step == 4) {
      EXPECT_GT(automatic.messages_, early) << "the guess was wrong";
    } else {
      EXPECT_EQ(automatic.messages_, early) << step;
    }
    const ExactExchange measured = automatic.members_[1]->stats.exchange;
    if (step < 4) {
      EXPECT_GT(measured.ms, 0);
      EXPECT_EQ(measured.values, automatic.values()) << "all buckets";
      EXPECT_GT(measured.factor_values, 0u);
    } else {
      EXPECT_EQ(measured.values, 0u) << step;
    }
    automatic.Apply(step);
    told.Apply(step);
  }
}

// A member that owns half of the reduction sends half of what the others contribute less, and its
// sums to both: (1 + (D - 2) x) times the vector.
TEST(GradientStepTest, SharesSayWhoSendsHowMuch) {
  Members members(3, "average", 1 << 20);
  std::vector<double> sent(3);
  members.group_.tap = [&](MemoryGroup::Message* message) {
    sent[message->from] += static_cast<double>(message->payload.size());
    return true;
  };
  const std::vector<double> shares = {0.25, 0.5, 0.25};
  for (const auto& member : members.members_) member->group_shares = shares;
  for (std::size_t r = 0; r < 3; ++r) members.Backward(r, 0, members.parts());
  const Values expected = SumOf({0, 1, 2}, 0, members.values());
  for (const Values& sum : members.Reduce(0, {0, 1, 2})) EXPECT_EQ(sum, expected);
  const double bytes = 4.0 * static_cast<double>(members.values());
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_NEAR(sent[r], (1 + shares[r]) * bytes, 4 * 1024 * 2 + 64 * 4) << r;  // rows, headers
    EXPECT_NEAR(static_cast<double>(members.members_[r]->stats.replica.raw_sent),
                (1 + shares[r]) * bytes, 2);
  }
  members.Apply(0);
  // Where nobody who counts has a share, they are equal.
  for (const auto& member : members.members_) member->group_shares = {0, 1, 0};
  for (std::size_t r = 0; r < 3; ++r) {
    const Values gradient = GradientOf(r, 1, members.values());
    ASSERT_TRUE(members.models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
  }
  const Values rest = SumOf({0, 2}, 1, members.values());
  for (const Values& sum : members.Reduce(1, {0, 2})) EXPECT_EQ(sum, rest);
}

TEST(GradientStepTest, SharesOfLinesThatAreNotKnown) {
  constexpr std::uint64_t kMbit = 1'000'000;
  using Lines = std::vector<LineRate>;
  const auto of = [](const Lines& lines) { return SharesByRates(lines); };
  EXPECT_TRUE(of({{0, 0}, {0, 50 * kMbit}, {0, 0}}).empty());
  EXPECT_EQ(of({{100 * kMbit, 0}, {0, 0}, {20 * kMbit, 0}}),
            of({{100 * kMbit, 0}, {100 * kMbit, 0}, {20 * kMbit, 0}}));
  const std::vector<double> slow = of({{100 * kMbit, 0}, {100 * kMbit, 20 * kMbit}, {0, 0}});
  ASSERT_EQ(slow.size(), 3u);
  EXPECT_LT(slow[1], slow[0]);
  EXPECT_EQ(slow[0], slow[2]);
}

TEST(GradientStepTest, AnErrorBeforeReduceIsItsAnswer) {
  Members members(2, "average:codec=direct:bits=4/bucket=64", 1);
  members.group_.tap = MemoryGroup::Garble;
  for (std::size_t r = 0; r < 2; ++r) {
    members.control_->Post("final", [&, r] { members.steps_[r]->OnFinalGradients(0, 1); });
  }
  members.Settle();
  std::vector<std::optional<Result<double>>> norms(2);
  for (std::size_t r = 0; r < 2; ++r) {
    members.control_->Post("reduce", [&, r] {
      ReduceOrder order;
      order.labels = kLabels;
      order.pipelines = {0, 1};
      members.steps_[r]->Reduce(order, [&, r](Result<double> norm) { norms[r] = std::move(norm); });
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

}  // namespace
}  // namespace shoal::replica
