// The stage group of a run of one stage, in virtual time: links, models and steps of any method.

#ifndef SHOAL_TESTS_UNIT_REPLICA_STAGE_GROUP_H_
#define SHOAL_TESTS_UNIT_REPLICA_STAGE_GROUP_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "replica/group_links.h"
#include "replica/replica_step.h"
#include "replica/step_registry.h"
#include "tests/support/sim_links.h"
#include "tests/support/tiny_stage.h"

namespace shoal::replica {

class StageGroup {
 public:
  static constexpr std::uint32_t kPipelines = 3;
  static constexpr double kRate = 1e-2;

  struct Peer {
    PeerId id;
    std::unique_ptr<test_support::TinyStage> model;
    std::unique_ptr<net::LinkHub> hub;
    std::unique_ptr<Member> member;
    std::unique_ptr<GroupLinks> links;
    std::unique_ptr<ReplicaStep> step;
    // Of the running step.
    model::MicroBatch micro_batch;
    std::vector<std::int32_t> tokens, labels;
    model::StepLoss loss;
    std::size_t weight_parts = 0;  // done
    bool trained = false, calling = false;
    std::optional<Result<double>> norm;
    std::optional<Status> applied;
  };

  // `seed`: of delays.
  StageGroup(const std::string& method, unsigned seed) : random_(seed) {
    const auto asked = ParseReplicaMethod(method);
    EXPECT_TRUE(asked.ok()) << asked.status().ToString();
    method_ = ParseReplicaMethod(asked->SpecOfRun(kRunSteps, 0)).value();
    const test_support::TinyShape shape{.layers = 3,
                                        .hidden = 16,
                                        .vocabulary = 40,
                                        .adamw = true,
                                        .units = method_.traits.shards_parameters};
    data_ = test_support::NewTinyData(shape, 1000);
    for (std::uint32_t p = 0; p < kPipelines; ++p) {
      auto peer = std::make_unique<Peer>();
      peer->id.key[0] = static_cast<std::uint8_t>(1 + p);
      peer->hub = net_.NewHub(peer->id, control_.get());
      peer->model = std::make_unique<test_support::TinyStage>(shape, model::StageRange{0, 3}, 5);
      peers_.push_back(std::move(peer));
    }
    Open();
  }
  ~StageGroup() { Close(); }

  // A new generation.
  void Open() {
    ++generation_;
    for (std::uint32_t p = 0; p < kPipelines; ++p) OpenLinks(p);
    for (const auto& peer : peers_) peer->links->Open();
    Settle();
    for (const auto& peer : peers_) OpenStep(peer.get());
    Settle();
  }
  // The end of one, whatever is under way.
  void Close() {
    for (const auto& peer : peers_) peer->step.reset();
    Settle();
    for (const auto& peer : peers_) {
      peer->links.reset();
      peer->model->ZeroGradients();
    }
    Settle();
  }

  const ReplicaMethod& method() const { return method_; }
  Peer& peer(std::size_t pipeline) { return *peers_[pipeline]; }
  void Settle() { Run(~std::size_t{0}); }
  // So many events, at most.
  void Run(std::size_t events) {
    for (std::size_t i = 0; i < events && world_.Step(); ++i) {
    }
  }

  // Forward and backward of the first `count` pipelines; the last one may have other rows.
  void Train(std::uint64_t step, std::uint32_t count = kPipelines, bool other = false) {
    for (std::uint32_t p = 0; p < count; ++p) {
      Peer* const peer = peers_[p].get();
      const bool odd = other && p + 1 == kPipelines;
      TakeRows(peer, step, kRows * (kPipelines * step + p) + (odd ? 500 : 0));
      control_->Post("train", [this, peer] { RunPart(peer, model::Pass::kForward); });
    }
    Settle();
    for (std::uint32_t p = 0; p < count; ++p) ASSERT_TRUE(peers_[p]->trained);
  }
  // Of a step in which the first `counted` pipelines count.
  ReduceOrder OrderOf(std::uint64_t step, std::uint32_t counted = kPipelines) {
    ReduceOrder order;
    order.step = step;
    order.learning_rate = kRate;
    order.checkpoint = true;
    for (std::uint32_t p = 0; p < kPipelines; ++p) {
      const std::uint64_t labels = peers_[p]->loss.labels;
      if (p < counted) {
        order.pipelines.push_back(p);
        order.labels += labels;
      }
      order.local_labels.push_back(labels);
      const double scale = 1 / static_cast<double>(labels);
      // No one has the gradients of a unit that is released, and no method that releases one asks.
      const double norm = method_.traits.shards_parameters
                              ? 1
                              : std::sqrt(peers_[p]->model->SquaredGradientNorm(scale));
      order.local_norms.push_back(std::isfinite(norm) ? norm : 0);  // as the scheduler has it
    }
    return order;
  }
  void BeginReduce(std::size_t pipeline, const ReduceOrder& order) {
    Peer* const peer = peers_[pipeline].get();
    control_->Post("reduce", [this, peer, order] {
      if (peer->step == nullptr) return;  // Close came first
      peer->calling = true;
      peer->step->Reduce(order, [this, peer](Result<double> norm) {
        EXPECT_TRUE(control_->InThread());
        EXPECT_FALSE(peer->calling) << "comes in a task of its own";
        EXPECT_FALSE(peer->norm.has_value()) << "comes once";
        peer->norm = std::move(norm);
      });
      peer->calling = false;
    });
  }
  void BeginApply(std::size_t pipeline, const ApplyOrder& order) {
    Peer* const peer = peers_[pipeline].get();
    control_->Post("apply", [this, peer, order] {
      peer->calling = true;
      peer->step->Apply(order, [this, peer](Status status) {
        EXPECT_TRUE(control_->InThread());
        EXPECT_FALSE(peer->calling) << "comes in a task of its own";
        EXPECT_FALSE(peer->applied.has_value()) << "comes once";
        peer->applied = std::move(status);
      });
      peer->calling = false;
    });
  }
  void Abandon(std::size_t pipeline) {
    control_->Post("abandon", [step = peers_[pipeline]->step.get()] { step->Abandon(); });
  }
  void Reduce(const ReduceOrder& order) {
    for (std::size_t p = 0; p < kPipelines; ++p) BeginReduce(p, order);
    Settle();
    for (const auto& peer : peers_) {
      ASSERT_TRUE(peer->norm.has_value());
      ASSERT_TRUE(peer->norm->ok()) << peer->norm->status().ToString();
      EXPECT_TRUE(std::isfinite(**peer->norm) && **peer->norm > 0);
      EXPECT_EQ(**peer->norm, **peers_[0]->norm);
    }
  }
  void Apply(const ReduceOrder& order, bool skip = false) {
    const auto labels = static_cast<double>(order.labels);
    const double norm = std::sqrt(**peers_[0]->norm) / labels;
    const ApplyOrder apply{order.step, norm, kRate, order.labels, skip};
    for (std::size_t p = 0; p < kPipelines; ++p) BeginApply(p, apply);
    Settle();
    for (const auto& peer : peers_) {
      ASSERT_TRUE(peer->applied.has_value());
      ASSERT_TRUE(peer->applied->ok()) << peer->applied->ToString();
    }
  }
  void Step(std::uint64_t step, std::uint32_t counted = kPipelines, bool other = false) {
    ASSERT_NO_FATAL_FAILURE(Train(step, kPipelines, other));
    const ReduceOrder order = OrderOf(step, counted);
    ASSERT_NO_FATAL_FAILURE(Reduce(order));
    ASSERT_NO_FATAL_FAILURE(Apply(order));
  }

  std::vector<float> Get(model::StateVector which, std::size_t pipeline) {
    std::vector<float> values(peers_[pipeline]->model->state_size());
    EXPECT_TRUE(peers_[pipeline]->model->Read(which, 0, values).ok());
    return values;
  }

 private:
  static constexpr std::uint32_t kRows = 2;
  static constexpr std::uint64_t kRunSteps = 100;
  static constexpr RunId kRun{9};

  void OpenLinks(std::uint32_t pipeline);
  void OpenStep(Peer* peer);
  void TakeRows(Peer* peer, std::uint64_t step, std::uint64_t first);
  void RunPart(Peer* peer, model::Pass pass);
  void AfterPart(Peer* peer, model::Pass pass, bool more);

  ReplicaMethod method_;
  std::mt19937 random_;
  test_support::SimWorld world_;
  test_support::SimNetwork net_{
      &world_, {[this] { return std::chrono::microseconds(1 + random_() % 700); }, 1e8}};
  const test_support::SimWorld::Cost cost_ = [](const char*) {
    return std::chrono::microseconds(9);
  };
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control", cost_);
  const std::unique_ptr<Executor> compute_ = world_.NewExecutor("compute", cost_);
  const std::unique_ptr<Executor> codec_ = world_.NewExecutor("codec", cost_);
  std::shared_ptr<const dataset::PreparedData> data_;
  std::uint64_t generation_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // by pipeline
};

}  // namespace shoal::replica

#endif  // SHOAL_TESTS_UNIT_REPLICA_STAGE_GROUP_H_
