// A group that agrees on momenta, whose links are in memory, and steps for it.

#ifndef SHOAL_TESTS_UNIT_REPLICA_MOMENTUM_MEMBERS_H_
#define SHOAL_TESTS_UNIT_REPLICA_MOMENTUM_MEMBERS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replica/step_registry.h"
#include "tests/support/memory_group.h"
#include "tests/support/tiny_stage.h"
#include "tests/unit/replica/step_facts.h"

namespace shoal::replica {

// Remembers where what is read of it goes, and what is written to it comes from.
class SeenStage final : public test_support::TinyStage {
 public:
  using TinyStage::TinyStage;

  Status Read(model::StateVector which, std::size_t first, std::span<float> values) override {
    places_.insert(values.data());
    return TinyStage::Read(which, first, values);
  }
  Status Write(model::StateVector which, std::size_t at, std::span<const float> values) override {
    places_.insert(values.data());
    return TinyStage::Write(which, at, values);
  }
  // Since the last call.
  std::set<const float*> TakePlaces() { return std::exchange(places_, {}); }

 private:
  std::set<const float*> places_;
};

class MomentumMembers {
 public:
  MomentumMembers(const std::string& method, const GroupShape& shape)
      : shape_(shape),
        control_(NewExecutor("control")),
        compute_(NewExecutor("compute")),
        codec_(NewExecutor("codec")),
        group_(&world_, control_.get(), shape.pipelines * shape.ends,
               [this] { return Duration(1000 * (1 + random_() % 50)); }) {
    const auto parsed = ParseReplicaMethod(method);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    group_.tap = [this](test_support::MemoryGroup::Message*) {
      ++messages_;
      return true;
    };
    for (std::uint32_t r = 0; r < shape.pipelines * shape.ends; ++r) AddMember(r, *parsed);
  }
  ~MomentumMembers() {
    steps_.clear();
    Settle();
  }

  std::size_t size() const { return models_.size(); }
  std::size_t values() const { return models_[0]->state_size(); }
  std::size_t parts() const { return models_[0]->weight_parts().size(); }
  void Settle() {
    world_.RunUntil([] { return false; }, std::chrono::hours(1));
  }
  // The end of a member's backward, `parts` of it; what is not final is not there.
  void Backward(std::size_t member, const StepFacts& facts, std::size_t parts) {
    const auto weight_parts = models_[member]->weight_parts();
    for (std::size_t part = 0; part < parts; ++part) {
      for (const std::size_t entry : weight_parts[part]) {
        const model::TensorLayout& tensor = models_[member]->layout()[entry];
        EXPECT_TRUE(
            models_[member]
                ->Write(model::StateVector::kGradients, tensor.offset,
                        std::span(facts.gradients[member]).subspan(tensor.offset, tensor.size))
                .ok());
      }
      control_->Post("final", [this, member, step = facts.step, part] {
        steps_[member]->OnFinalGradients(step, part + 1);
      });
      Settle();
    }
  }
  void Reduce(const StepFacts& facts) {
    norms_.assign(size(), std::nullopt);
    for (std::size_t r = 0; r < size(); ++r) {
      EXPECT_TRUE(models_[r]->Write(model::StateVector::kGradients, 0, facts.gradients[r]).ok());
      control_->Post("reduce", [this, r, order = OrderOf(facts)] {
        steps_[r]->Reduce(order, [this, r](Result<double> norm) { norms_[r] = std::move(norm); });
        EXPECT_FALSE(norms_[r].has_value()) << "comes in a task of its own";
      });
    }
    models_[0]->TakePlaces();  // of what is above
    Settle();
    for (std::size_t r = 0; r < size(); ++r) {
      ASSERT_TRUE(norms_[r].has_value()) << "member " << r;
      ASSERT_TRUE(norms_[r]->ok()) << norms_[r]->status().ToString();
    }
  }
  // Some members get the order to reduce, and a while passes; returns how many. With gradients that
  // are the members' own.
  int BeginReduce(const StepFacts& facts, Duration duration, std::mt19937& random) {
    int begun = 0;
    for (std::size_t r = 0; r < size(); ++r) {
      EXPECT_TRUE(models_[r]->Write(model::StateVector::kGradients, 0, facts.gradients[r]).ok());
      if (random() % 4 == 0) continue;
      ++begun;
      control_->Post("reduce", [this, r, order = OrderOf(facts)] {
        steps_[r]->Reduce(order, [](const Result<double>&) {});
      });
    }
    world_.RunUntil([] { return false; }, duration);
    return begun;
  }
  // The step is dealt out again, to some pipelines; until its Apply.
  void Amend(const std::vector<std::uint32_t>& counting) {
    for (std::size_t r = 0; r < size(); ++r) {
      control_->Post("amend", [this, r, counting] {
        ++members_[r]->amendment;
        members_[r]->counting = counting;
        EXPECT_TRUE(steps_[r]->Reopen().ok());
      });
    }
    Settle();
  }
  void Apply(const StepFacts& facts) {
    std::size_t applied = 0;
    for (std::size_t r = 0; r < size(); ++r) {
      control_->Post("apply", [&, r] {
        steps_[r]->Apply({facts.step, 1, 1e-3, OrderOf(facts).labels}, [&](const Status& status) {
          EXPECT_TRUE(status.ok()) << status.ToString();
          ++applied;
        });
      });
    }
    Settle();
    worked_in_ = models_[0]->TakePlaces();
    ASSERT_EQ(applied, size());
    for (const auto& member : members_) {
      member->amendment = 0;
      member->counting.clear();
    }
    for (std::size_t r = 1; r < size(); ++r) {
      ASSERT_EQ(Get(model::StateVector::kFirstMoment, r), Get(model::StateVector::kFirstMoment));
      ASSERT_EQ(models_[r]->WeightChecksum(), models_[0]->WeightChecksum());
    }
  }
  // A whole step, of which member r has made `early(r)` parts known before Reduce.
  void Step(const StepFacts& facts, const std::function<std::size_t(std::size_t)>& early) {
    for (std::size_t r = 0; r < size(); ++r) Backward(r, facts, early(r));
    ASSERT_NO_FATAL_FAILURE(Reduce(facts));
    ASSERT_NO_FATAL_FAILURE(Apply(facts));
  }
  Values Get(model::StateVector which, std::size_t member = 0) {
    Values values(this->values());
    EXPECT_TRUE(models_[member]->Read(which, 0, values).ok());
    return values;
  }

  const GroupShape shape_;
  std::set<std::string> ran_;  // "executor task"
  test_support::SimWorld world_;
  std::mt19937 random_{4};
  std::unique_ptr<Executor> control_, compute_, codec_;
  test_support::MemoryGroup group_;
  std::size_t messages_ = 0;
  std::vector<std::unique_ptr<SeenStage>> models_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<ReplicaStep>> steps_;
  std::vector<std::optional<Result<double>>> norms_;
  std::set<const float*> worked_in_;  // memory of member 0's, from Reduce to Apply

 private:
  std::unique_ptr<Executor> NewExecutor(const char* name) {
    return world_.NewExecutor(name, [this, name](const char* task) {
      ran_.insert(std::string(name) + " " + task);
      return Duration(1000);
    });
  }
  void AddMember(std::uint32_t rank, const ReplicaMethod& method) {
    const test_support::TinyShape tiny{
        .layers = 5, .hidden = 16, .vocabulary = 40, .adamw = true, .clip_norm = kClip};
    models_.push_back(std::make_unique<SeenStage>(tiny, model::StageRange{0, 5}, 5));
    MemberConfig config;
    config.seed = 3;
    config.steps = 100;
    config.generation = shape_.generation;
    config.pipeline = rank % shape_.pipelines;
    config.pipelines = shape_.pipelines;
    config.stage = rank / shape_.pipelines;
    config.stages = shape_.ends;
    config.bucket_values_min = shape_.values_min;
    Member member{.config = config,
                  .control = control_.get(),
                  .compute = compute_.get(),
                  .codec = codec_.get(),
                  .model = models_.back().get()};
    members_.push_back(std::make_unique<Member>(std::move(member)));
    members_.back()->fail = [](const Status& status, const PeerId*) {
      ADD_FAILURE() << status.ToString();
    };
    const std::vector<model::TensorLayout> layout(models_.back()->layout().begin(),
                                                  models_.back()->layout().end());
    ReplicaContext context{members_.back().get(), nullptr, {}, method};
    context.parts.push_back(MakeParameterGroup(layout, group_.member(rank), shape_.ends));
    context.final_after = FinalAfter(layout, models_.back()->weight_parts());
    auto step = NewReplicaStep(std::move(context));
    EXPECT_TRUE(step.ok()) << step.status().ToString();
    steps_.push_back(std::move(*step));
  }
};

}  // namespace shoal::replica

#endif  // SHOAL_TESTS_UNIT_REPLICA_MOMENTUM_MEMBERS_H_
