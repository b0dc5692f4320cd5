// The methods that agree on gradients: `average`, `powersgd`. The model's optimizer does the rest.

#include <algorithm>
#include <utility>

#include "collective/exchange.h"
#include "compression/power_sgd_vector.h"
#include "pipeline/replica_step.h"

namespace shoal::pipeline {
namespace {

using model::StateVector;

class GradientStep final : public ReplicaStep {
 public:
  explicit GradientStep(ReplicaContext context)
      : core_(context.core),
        links_(context.links),
        parts_(std::move(context.parts)),
        exchanges_(parts_.size()),
        scope_(core_->deps.control) {}

  // One exchange per part.
  Status Init(const compression::ReplicaMethod& method);
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  void Exchange(std::size_t part, Buffer values);
  void OnPart(std::size_t part, Result<Buffer> sum);
  void Finish(Result<double> norm);
  void ReadNorm();

  RunnerCore* const core_;
  const GroupLinks* const links_;
  const ReplicaParts parts_;
  std::vector<std::unique_ptr<collective::Exchange>> exchanges_;  // by part
  ReduceOrder order_;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::size_t parts_left_ = 0;
  std::uint64_t factor_values_ = 0;  // of the stage's own part, by powersgd
  TimePoint began_{};                // its exchange
  bool exact_ = false;               // it, in the running step, whatever the method
  TaskScope scope_;                  // last: its tasks use what is above
};

Status GradientStep::Init(const compression::ReplicaMethod& method) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(exchanges_[i], NewPartExchange(*core_, method, *parts_[i]));
    if (method.kind != compression::ReplicaKind::kPowerSgd || parts_[i]->embedding) continue;
    std::vector<std::vector<std::size_t>> shapes;
    for (const model::TensorLayout& tensor : parts_[i]->tensors) shapes.push_back(tensor.shape);
    const compression::PowerSgdLayout layout(method.power_sgd, shapes);
    factor_values_ = layout.first_values() + layout.second_values();
  }
  return Status::Ok();
}

void GradientStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  parts_left_ = parts_.size();
  core_->stats.exchange = {};
  exact_ = std::find(order.exact_stages.begin(), order.exact_stages.end(), core_->config.stage) !=
           order.exact_stages.end();
  if (parts_.empty()) return ReadNorm();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    auto read = [model = core_->deps.model, part = parts_[i]]() -> Result<Buffer> {
      Buffer values(part->values * sizeof(float));
      SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, *part, values.floats()));
      return values;
    };
    scope_.Run(core_->deps.compute, "gradients.read", std::move(read),
               [this, i](Result<Buffer> values) {
                 if (!values.ok()) return Finish(values.status());
                 Exchange(i, std::move(*values));
               });
  }
}

void GradientStep::Exchange(std::size_t part, Buffer values) {
  core_->Progress();
  collective::ExchangeRequest request;
  request.round = order_.step + 1;
  // Gradients are sums over labels already: a pipeline that counts has weight 1.
  request.weights = PartWeights(*parts_[part], order_.pipelines);
  CountRaw(*parts_[part], request.weights, parts_[part]->values, &core_->stats.replica);
  request.values = std::make_shared<const Buffer>(std::move(values));
  request.exact = exact_;
  if (!parts_[part]->embedding) began_ = core_->deps.control->clock().Now();
  exchanges_[part]->Start(std::move(request),
                          [this, part](Result<Buffer> sum) { OnPart(part, std::move(sum)); });
}

void GradientStep::OnPart(std::size_t part, Result<Buffer> sum) {
  if (!sum.ok()) return Finish(sum.status());
  core_->Progress();
  if (exact_ && !parts_[part]->embedding) {
    const Duration took = core_->deps.control->clock().Now() - began_;
    core_->stats.exchange = {Milliseconds(took), parts_[part]->values, factor_values_};
  }
  auto write = [model = core_->deps.model, to = parts_[part], values = std::move(*sum)] {
    return WritePart(model, StateVector::kGradients, *to, values.floats());
  };
  scope_.Run(core_->deps.compute, "gradients.write", std::move(write), [this](Status status) {
    if (!status.ok()) return Finish(status);
    if (--parts_left_ == 0) ReadNorm();
  });
}

void GradientStep::ReadNorm() {
  auto norm = [model = core_->deps.model] { return model->SquaredGradientNorm(1.0); };
  scope_.Run(core_->deps.compute, "gradients.norm", std::move(norm),
             [this](double squared) { Finish(squared); });
}

void GradientStep::Finish(Result<double> norm) {
  // Only the first of several errors counts.
  if (done_) std::exchange(done_, nullptr)(std::move(norm));
}

void GradientStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  for (const auto& exchange : exchanges_) exchange->Commit();
  auto apply = [model = core_->deps.model, order] {
    return model->Apply(order.step, 1.0 / static_cast<double>(order.labels), order.global_norm,
                        order.learning_rate);
  };
  scope_.Run(core_->deps.compute, "model.apply", std::move(apply), std::move(done));
}

std::string GradientStep::Awaited(const PeerId** peer) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::vector<std::size_t> members = exchanges_[i]->Awaited();
    if (members.empty()) continue;
    *peer = &links_->peer(*parts_[i]->channel, members.front());
    return "the gradients of " + links_->Name(*parts_[i]->channel, members.front());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewGradientStep(ReplicaContext context) {
  const compression::ReplicaMethod method = context.method;
  auto step = std::make_unique<GradientStep>(std::move(context));
  SHOAL_RETURN_IF_ERROR(step->Init(method));
  return std::unique_ptr<ReplicaStep>(std::move(step));
}

}  // namespace shoal::pipeline
