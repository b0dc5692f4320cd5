// A stage group with sharded optimizer state, whose links are in memory.

#ifndef SHOAL_TESTS_UNIT_REPLICA_QSDP_MEMBERS_H_
#define SHOAL_TESTS_UNIT_REPLICA_QSDP_MEMBERS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replica/replica_step.h"
#include "replica/step_registry.h"
#include "tests/support/memory_group.h"
#include "tests/unit/replica/qsdp_reference.h"

namespace shoal::replica {

using test_support::MemoryGroup;
using test_support::SimWorld;

// A stage group whose members have models of their own, and steps of one generation.
class Members {
 public:
  // `buckets`: a vector is cut at what is final together; else all waits for Reduce.
  Members(std::size_t count, const std::string& method, std::vector<std::uint32_t> lans = {},
          bool buckets = false)
      : method_(method), lans_(std::move(lans)), buckets_(buckets) {
    for (std::size_t r = 0; r < count; ++r) models_.push_back(std::make_unique<MixedStage>());
    Open();
  }
  ~Members() { Close(); }

  // A new generation, of the first `count` members.
  void Open(std::size_t count = 0) {
    Close();
    ++generation_;
    if (count > 0) models_.resize(count);
    control_ = world_.NewExecutor("control", [](const char*) { return Duration(1000); });
    compute_ = world_.NewExecutor("compute", [](const char*) { return Duration(1000); });
    codec_ = world_.NewExecutor("codec", [](const char*) { return Duration(1000); });
    group_ = std::make_unique<MemoryGroup>(&world_, control_.get(), models_.size(), [this] {
      return Duration(1000 * (1 + random_() % 50));
    });
    const auto method = ParseReplicaMethod(method_);
    ASSERT_TRUE(method.ok()) << method.status().ToString();
    for (std::size_t r = 0; r < models_.size(); ++r) {
      MemberConfig config;
      config.seed = 3;
      config.steps = 100;
      config.generation = generation_;
      config.pipeline = static_cast<std::uint32_t>(r);
      config.pipelines = static_cast<std::uint32_t>(models_.size());
      config.lans = lans_;
      config.bucket_values_min = 1;
      Member member{.config = config,
                    .control = control_.get(),
                    .compute = compute_.get(),
                    .codec = codec_.get(),
                    .model = models_[r].get()};
      members_.push_back(std::make_unique<Member>(std::move(member)));
      members_.back()->fail = [this](const Status& status, const PeerId*) {
        failures_.push_back(status);
      };
      const auto layout = models_[r]->layout();
      ReplicaContext context{members_.back().get(), nullptr, {}, *method};
      context.parts.push_back(
          MakeParameterGroup({layout.begin(), layout.end()}, group_->member(r), 1));
      if (buckets_) context.final_after = models_[r]->FinalAfterParts();
      auto step = NewReplicaStep(std::move(context));
      ASSERT_TRUE(step.ok()) << step.status().ToString();
      steps_.push_back(std::move(*step));
    }
  }
  void Close() {
    steps_.clear();
    Settle();  // what was posted
    group_.reset();
    members_.clear();
  }

  ReduceOrder OrderOf(std::uint64_t step, bool checkpoint) const {
    ReduceOrder order;
    order.step = step;
    order.labels = kLabels;
    order.learning_rate = kRate;
    order.checkpoint = checkpoint;
    for (const std::size_t r : Counted()) order.pipelines.push_back(static_cast<std::uint32_t>(r));
    return order;
  }
  void WriteGradients(std::uint64_t step) {
    for (std::size_t r = 0; r < models_.size(); ++r) {
      const Values gradient = GradientOf(r, step, models_[r]->state_size());
      ASSERT_TRUE(models_[r]->Write(StateVector::kGradients, 0, gradient).ok());
    }
  }
  // The end of a member's backward, part by part: what is not final is not there.
  void Backward(std::size_t member, std::uint64_t step, std::size_t parts) {
    MixedStage& stage = *models_[member];
    const Values gradient = GradientOf(member, step, stage.state_size());
    for (std::size_t part = 1; part <= parts; ++part) {
      const model::TensorLayout& tensor = stage.layout()[stage.layout().size() - part];
      const auto values = std::span(gradient).subspan(tensor.offset, tensor.size);
      ASSERT_TRUE(stage.Write(StateVector::kGradients, tensor.offset, values).ok());
      control_->Post("final",
                     [this, member, step, part] { steps_[member]->OnFinalGradients(step, part); });
      Settle();
    }
  }
  void Settle() {
    world_.RunUntil([] { return false; }, std::chrono::hours(1));
  }
  void BeginReduce(std::uint64_t step, bool checkpoint) {
    norms_.assign(models_.size(), std::nullopt);
    WriteGradients(step);
    for (std::size_t r = 0; r < models_.size(); ++r) {
      control_->Post("reduce", [this, r, order = OrderOf(step, checkpoint)] {
        steps_[r]->Reduce(order, [this, r](Result<double> norm) { norms_[r] = std::move(norm); });
      });
    }
  }
  // Whether all members have the result of the step.
  bool Reduced() const {
    return std::all_of(norms_.begin(), norms_.end(),
                       [](const auto& norm) { return norm.has_value(); });
  }
  void BeginApply(std::uint64_t step) {
    applied_ = 0;
    for (std::size_t r = 0; r < models_.size(); ++r) {
      ASSERT_TRUE(norms_[r]->ok()) << norms_[r]->status().ToString();
      EXPECT_EQ(**norms_[r], **norms_[0]);
      control_->Post("apply",
                     [this, r, order = ApplyOrder{step, GlobalNorm(**norms_[0]), kRate, kLabels}] {
                       steps_[r]->Apply(order, [this](const Status& status) {
                         EXPECT_TRUE(status.ok()) << status.ToString();
                         ++applied_;
                       });
                     });
    }
  }
  bool Applied() const { return applied_ == models_.size(); }
  void Step(std::uint64_t step, bool checkpoint = false) {
    BeginReduce(step, checkpoint);
    ASSERT_TRUE(world_.RunUntil([this] { return Reduced(); }, std::chrono::hours(1)));
    BeginApply(step);
    ASSERT_TRUE(world_.RunUntil([this] { return Applied(); }, std::chrono::hours(1)));
    for (std::size_t r = 1; r < models_.size(); ++r) {
      EXPECT_EQ(models_[r]->WeightChecksum(), models_[0]->WeightChecksum());
    }
    EXPECT_TRUE(failures_.empty()) << failures_[0].ToString();
  }
  double Clip() const { return ClipOf(**norms_[0]); }  // of the last step
  std::vector<std::size_t> Counted() const {
    std::vector<std::size_t> counted;
    for (std::size_t r = 0; r < models_.size(); ++r) {
      if (!left_out_.contains(r)) counted.push_back(r);
    }
    return counted;
  }
  Values Get(StateVector which, std::size_t member = 0) { return models_[member]->Get(which); }

  SimWorld world_;
  std::mt19937 random_{4};
  const std::string method_;
  const std::vector<std::uint32_t> lans_;  // of the plan
  const bool buckets_;
  std::uint64_t generation_ = 0;
  std::vector<std::unique_ptr<MixedStage>> models_;
  std::unique_ptr<Executor> control_, compute_, codec_;
  std::unique_ptr<MemoryGroup> group_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<ReplicaStep>> steps_;
  std::vector<std::optional<Result<double>>> norms_;
  std::size_t applied_ = 0;  // members
  std::vector<Status> failures_;
  std::set<std::size_t> left_out_;
};

inline std::string Method(const std::string& options) {
  return "qsdp:bucket=" + std::to_string(kBucket) + ",raw_below=200," + options;
}

}  // namespace shoal::replica

#endif  // SHOAL_TESTS_UNIT_REPLICA_QSDP_MEMBERS_H_
