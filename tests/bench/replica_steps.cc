// Rounds of the replica bench that are steps of a run, by the code that peers run. Gradients are
// read from a model and folded, the group agrees, and weights and moments are written. Only the
// model is none: vectors in memory, and no optimizer of its own.

#include <algorithm>
#include <utility>

#include "replica/replica_step.h"
#include "replica/step_registry.h"
#include "tests/bench/replica_methods.h"

namespace shoal::bench {
namespace {

using model::StateVector;
using model::TensorLayout;

// What is written to the gradients goes nowhere: each step has those of the bench.
class FlatStage final : public model::StageModel {
 public:
  FlatStage(std::shared_ptr<const Buffer> gradients, std::vector<TensorLayout> layout)
      : gradients_(std::move(gradients)), layout_(std::move(layout)) {
    for (auto& vector : state_) vector.resize(state_size());
  }

  std::span<const TensorLayout> layout() const override { return layout_; }
  std::size_t state_size() const override { return gradients_->size() / sizeof(float); }
  Status Read(StateVector which, std::size_t first, std::span<float> values) override {
    const std::span<const float> from =
        which == StateVector::kGradients ? gradients_->floats() : Of(which);
    std::ranges::copy(from.subspan(first, values.size()), values.begin());
    return Status::Ok();
  }
  Status Write(StateVector which, std::size_t first, std::span<const float> values) override {
    std::ranges::copy(values, Of(which).subspan(first).begin());
    return Status::Ok();
  }
  void ZeroGradients() override {}
  double SquaredGradientNorm(double) override { return 1; }
  Status Apply(std::uint64_t, double, double, double) override { return Status::Ok(); }
  std::vector<std::vector<std::size_t>> weight_parts() const override {
    std::vector<std::vector<std::size_t>> parts;
    for (std::size_t i = 0; i < layout_.size(); ++i) parts.push_back({i});
    return parts;
  }
  const model::StageOptions& options() const override { return options_; }
  TensorLayout tied_embedding() const override { return {}; }

  // What a step does not ask for.
  const storage::ModelConfig& config() const override { return config_; }
  std::string device_name() const override { return "none"; }
  Status Forward(const model::MicroBatch&, std::span<float>, model::StepLoss*) override {
    return None();
  }
  Status BackwardInput(MicroBatchId, std::span<const float>, std::span<float>) override {
    return None();
  }
  Result<bool> BackwardWeights(MicroBatchId) override { return None(); }
  Status Evaluate(const model::MicroBatch&, std::span<float>, model::StepLoss*) override {
    return None();
  }
  Status Logits(const model::MicroBatch&, bool, std::span<float>) override { return None(); }
  Status Save(const std::string&) override { return None(); }
  Status Load(const std::map<std::string, std::string>&,
              const std::map<std::string, std::string>&) override {
    return None();
  }
  Status LoadDirectory(const storage::ModelDirectory&) override { return None(); }
  std::vector<std::string> parts() const override { return {}; }
  std::uint64_t StateBytes() const override { return 0; }
  std::uint64_t MicroBatchBytes(std::uint32_t, std::uint32_t) const override { return 0; }
  std::uint64_t WeightChecksum() const override { return 0; }

 private:
  static Status None() { return Unimplemented("a model of the bench is vectors only"); }
  std::span<float> Of(StateVector which) { return state_[static_cast<std::size_t>(which)]; }

  const std::shared_ptr<const Buffer> gradients_;
  const std::vector<TensorLayout> layout_;
  const storage::ModelConfig config_;
  const model::StageOptions options_;
  std::vector<float> state_[4];
};

class StepRounds final : public ReplicaBenchMethod {
 public:
  StepRounds(const ReplicaBenchOptions& options, std::vector<TensorLayout> layout,
             collective::GroupChannel* channel, Executor* control, Executor* codec)
      : compute_(NewThreadExecutor("model")), model_(options.values, layout) {
    replica::MemberConfig config;
    config.seed = 1;
    config.steps = std::uint64_t{1} << 32;
    config.generation = 1;
    config.pipeline = static_cast<std::uint32_t>(channel->rank());
    config.pipelines = static_cast<std::uint32_t>(channel->size());
    config.stages = 1;
    replica::Member member{.config = config,
                           .control = control,
                           .compute = compute_.get(),
                           .codec = codec,
                           .model = &model_};
    member_ = std::make_unique<replica::Member>(std::move(member));
    member_->fail = [this](const Status& status, const PeerId*) { Fail(status); };
    part_ = replica::MakeParameterGroup(layout, channel, false);
    for (std::uint32_t p = 0; p < config.pipelines; ++p) order_.pipelines.push_back(p);
    order_.labels = config.pipelines;
    order_.learning_rate = 1e-3;
    order_.local_norms.assign(config.pipelines, 1);
    order_.local_labels.assign(config.pipelines, 1);
  }

  Status Init(const std::string& method) {
    replica::ReplicaContext context;
    context.member = member_.get();
    context.parts.push_back(part_);
    SHOAL_ASSIGN_OR_RETURN(context.method, replica::ParseReplicaMethod(method));
    context.layout.assign(model_.layout().begin(), model_.layout().end());
    context.final_after = replica::FinalAfter(context.layout, model_.weight_parts());
    SHOAL_ASSIGN_OR_RETURN(step_, replica::NewReplicaStep(std::move(context)));
    return Status::Ok();
  }

  void Round(std::uint64_t round, Done done) override {
    order_.step = round - 1;
    done_ = std::move(done);
    step_->Reduce(order_, [this](const Result<double>& norm) {
      if (!norm.ok()) return Fail(norm.status());
      step_->Apply({order_.step, *norm, order_.learning_rate, order_.labels},
                   [this](const Status& status) {
                     if (!status.ok()) return Fail(status);
                     if (done_) std::exchange(done_, nullptr)(ReplicaBenchResult());
                   });
    });
  }
  ReplicaBenchResult Agreed() override {
    ReplicaBenchResult weights;
    weights.emplace_back(model_.state_size() * sizeof(float));
    SHOAL_CHECK(model_.Read(StateVector::kWeights, 0, weights.front().floats()).ok());
    return weights;
  }

 private:
  void Fail(const Status& status) {
    if (done_) std::exchange(done_, nullptr)(status);
  }

  const std::unique_ptr<Executor> compute_;
  FlatStage model_;
  std::unique_ptr<replica::Member> member_;
  std::shared_ptr<const replica::ParameterGroup> part_;
  replica::ReduceOrder order_;
  Done done_;
  std::unique_ptr<replica::ReplicaStep> step_;
};

}  // namespace

Result<std::unique_ptr<ReplicaBenchMethod>> NewStepRounds(
    const ReplicaBenchOptions& options, const std::vector<std::vector<std::size_t>>& tensors,
    collective::GroupChannel* channel, Executor* control, Executor* codec) {
  std::vector<TensorLayout> layout;
  for (const std::vector<std::size_t>& shape : tensors) {
    TensorLayout tensor;
    tensor.name = std::to_string(layout.size());
    tensor.offset = layout.empty() ? 0 : layout.back().offset + layout.back().size;
    tensor.size = 1;
    for (const std::size_t side : shape) tensor.size *= side;
    tensor.shape = shape;
    layout.push_back(std::move(tensor));
  }
  auto rounds = std::make_unique<StepRounds>(options, std::move(layout), channel, control, codec);
  SHOAL_RETURN_IF_ERROR(rounds->Init(options.step));
  return std::unique_ptr<ReplicaBenchMethod>(std::move(rounds));
}

}  // namespace shoal::bench
