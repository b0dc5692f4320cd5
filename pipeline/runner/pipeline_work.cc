#include "pipeline/runner/pipeline_work.h"

#include <algorithm>
#include <utility>

namespace shoal::pipeline {

PipelineWork::PipelineWork(const Parts& parts, Handlers handlers, const net::LinkTarget& previous,
                           const net::LinkTarget& next, std::unique_ptr<PipelineWork> before)
    : parts_(parts),
      handlers_(std::move(handlers)),
      generation_(parts.resources->control, handlers_.on_failed, parts.config->timeouts),
      before_(std::move(before)) {
  previous_ = MakeBoundary(storage::BoundarySide::kReceiver, previous);
  next_ = MakeBoundary(storage::BoundarySide::kSender, next);
  MakeCompute();
}

std::unique_ptr<Boundary> PipelineWork::MakeBoundary(storage::BoundarySide side,
                                                     const net::LinkTarget& target) {
  if (target.peer == PeerId{}) return nullptr;
  const RunnerResources& resources = *parts_.resources;
  Boundary::Handlers handlers;
  handlers.on_up = handlers_.on_up;
  handlers.on_data = [this] { OnData(); };
  handlers.on_sent = [this](net::FrameKind kind, double ms) { compute_->NoteSent(kind, ms); };
  auto made =
      std::make_unique<Boundary>(BoundaryConfigOf(*parts_.config, *parts_.codecs),
                                 TransferResources{&generation_, parts_.links, resources.codec,
                                                   parts_.transfers, parts_.mark.get()},
                                 BoundaryCache::Resources{&generation_, resources.store,
                                                          resources.delta_store, parts_.transfers},
                                 side, target, std::move(handlers));
  if (resources.kept != nullptr) made->GoOnFrom(*resources.kept);
  return made;
}

void PipelineWork::OnData() {
  spot_checks_->Pump();
  if (evaluation_->active()) return evaluation_->Pump();
  compute_->Pump();
}

void PipelineWork::MakeCompute() {
  const RunnerConfig& config = *parts_.config;
  const RunnerResources& resources = *parts_.resources;
  const compression::SampleShape sample{config.row_tokens, config.hidden};
  compute_ = std::make_unique<StepCompute>(
      StepCompute::Config{config.stage, config.stages, sample, config.schedule,
                          config.in_flight_max, config.activation_memory_bytes},
      StepCompute::Resources{&generation_, resources.control, resources.compute, resources.codec,
                             resources.model, parts_.codecs->home, resources.data, parts_.computed,
                             parts_.activity},
      previous_.get(), next_.get(),
      StepCompute::Handlers{handlers_.on_final_gradients, handlers_.on_done});
  evaluation_ = std::make_unique<StepEvaluation>(
      sample,
      StepEvaluation::Resources{&generation_, resources.compute, resources.model, resources.data,
                                parts_.codecs->home, parts_.codecs->evaluation, parts_.activity},
      previous_.get(), next_.get(), [this] {
        if (generation_.ended()) return;
        computes_ = true;
        compute_->StartStep(*parts_.plan);
      });
  spot_checks_ = std::make_unique<SpotChecks>(
      SpotChecks::Parts{&config, &resources, BoundaryConfigOf(config, *parts_.codecs), &generation_,
                        parts_.links, previous_.get(), next_.get(), handlers_.on_spot_checked});
}

void PipelineWork::RollBackStore(std::uint64_t step) {
  const RunnerResources& resources = *parts_.resources;
  if (resources.delta_store == nullptr) return;
  auto drop = [store = resources.delta_store, run = parts_.config->run, step] {
    return store->DropNewerThan(run, step);
  };
  generation_.scope().Run(resources.store, "delta.roll_back", std::move(drop),
                          [this](const Status& status) {
                            if (!status.ok()) generation_.Fail(status.WithContext("delta store"));
                          });
}

void PipelineWork::Open() {
  RollBackStore(parts_.config->resume_step);
  EachBoundary([](Boundary* boundary) { boundary->Open(); });
}

bool PipelineWork::up() const {
  bool up = true;
  EachBoundary([&](const Boundary* boundary) { up = up && boundary->up(); });
  return up;
}

void PipelineWork::SetUp(std::uint64_t in_flight, std::uint64_t pending,
                         replica::OperationGate* gate) {
  compute_->set_memory(in_flight, pending);
  compute_->set_gate(gate);
}

Status PipelineWork::StartStep() {
  computes_ = false;
  spot_checks_->StartStep(*parts_.plan);
  for (Boundary* const boundary : {previous_.get(), next_.get()}) {
    if (boundary != nullptr) SHOAL_RETURN_IF_ERROR(boundary->StartStep(*parts_.plan));
  }
  if (!generation_.ended()) evaluation_->Start(*parts_.plan);
  return Status::Ok();
}

void PipelineWork::DropBefore(std::uint64_t step) {
  if (before_ == nullptr) return;
  before_.reset();
  RollBackStore(step);
}

Duration PipelineWork::longest() const {
  const Duration own = generation_.watch()->longest();
  return before_ != nullptr ? std::max(own, before_->longest()) : own;
}

void PipelineWork::CheckOperations() {
  compute_->ExcuseWait();
  const auto overdue = generation_.watch()->Look();
  if (!overdue) return;
  generation_.Fail(DeadlineExceeded(overdue->text), compute_->AwaitedPeer(overdue->kind));
}

void PipelineWork::ExtendStep() {
  spot_checks_->SetIdle(false);
  EachBoundary([this](Boundary* boundary) { boundary->ExtendStep(*parts_.plan); });
  if (computes_ && !generation_.ended()) compute_->ExtendStep(*parts_.plan);
}

}  // namespace shoal::pipeline
