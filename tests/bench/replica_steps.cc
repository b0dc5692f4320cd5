// Rounds of the replica bench that are steps of a run, by the code that peers run. Gradients are
// read from a model and folded, the group agrees, and weights and moments are written. Only the
// model is none: vectors in memory, and no optimizer of its own.

#include <algorithm>
#include <utility>

#include "replica/replica_step.h"
#include "replica/step_registry.h"
#include "tests/bench/flat_stage.h"
#include "tests/bench/replica_methods.h"

namespace shoal::bench {
namespace {

using model::StateVector;
using model::TensorLayout;

class StepRounds final : public ReplicaBenchMethod {
 public:
  StepRounds(const ReplicaBenchOptions& options, std::vector<TensorLayout> layout,
             collective::GroupChannel* channel, Executor* control, Executor* codec)
      : model_(options.values, layout), compute_(NewThreadExecutor("model")) {
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
    part_ = replica::MakeParameterGroup(layout, channel, 1);
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
    compute_->Post("backward", [this] { model_.GiveGradients(); });
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

  FlatStage model_;
  const std::unique_ptr<Executor> compute_;  // whose tasks use it
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
