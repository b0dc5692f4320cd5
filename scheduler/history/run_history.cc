#include "scheduler/history/run_history.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace shoal::scheduler {

Status RunHistory::Apply(const StoredEvent& event) {
  if (!began_ && !std::holds_alternative<RunBegan>(event)) {
    return DataLoss("the event log does not begin with its run");
  }
  return std::visit([this](const auto& e) { return this->On(e); }, event);
}

void RunHistory::AddLoss(double loss) {
  losses_.push_back(loss);
  ++step_;
  ++trained_;
}

std::size_t RunHistory::skipped_in_a_row() const {
  std::size_t count = 0;
  while (count < skipped_.size() && skipped_[skipped_.size() - 1 - count] + 1 + count == step_) {
    ++count;
  }
  return count;
}

std::optional<LossesKnown> RunHistory::TakeNewLosses() {
  if (losses_stored_ >= losses_.size()) return std::nullopt;
  const auto first = losses_.begin() + static_cast<std::ptrdiff_t>(losses_stored_);
  LossesKnown known{losses_stored_, {first, losses_.end()}};
  losses_stored_ = losses_.size();
  return known;
}

Status RunHistory::On(const RunBegan& event) {
  if (began_) return DataLoss("the event log holds two runs");
  if (event.config_hash != config_hash_) {
    return FailedPrecondition(
        "model, data, seed, stages, cuts or micro-batches differ from those that run " +
        event.run.ToHex() +
        " began with; undo the change in run.toml, or name another directory for a new run; "
        "--forget-history sets this run's history and artefacts aside");
  }
  began_ = true;
  return Status::Ok();
}

Status RunHistory::On(const SampleOrder& event) {
  if (sample_order_ && *sample_order_ != event) {
    return DataLoss("the order of the samples changes within the run");
  }
  sample_order_ = event;
  return Status::Ok();
}

Status RunHistory::On(const GenerationEnded& event) {
  if (event.step > step_) return DataLoss("a generation ended at an unknown step");
  ended_ = true;
  return Status::Ok();
}

Status RunHistory::On(const GenerationGoesOn& event) {
  if (generation_ == 0) return DataLoss("a generation goes on before there is one");
  if (ended_) return DataLoss("a generation goes on that has ended");
  if (event.step != step_) return DataLoss("a generation goes on at another step than the newest");
  return Status::Ok();
}

Status RunHistory::On(const RunStarted&) {
  started_ = true;
  return Status::Ok();
}

Status RunHistory::On(const PlanMade& event) {
  if (event.resume_step > losses_.size()) return DataLoss("a plan resumes at an unknown step");
  const std::size_t stages = sample_order_ ? sample_order_->stages : 0;
  if (event.homes.count > 0 && event.homes.of.size() * stages != event.hosts.size()) {
    return DataLoss("a plan has homes for other pipelines than its own");
  }
  generation_ = event.generation;
  ended_ = false;
  hosts_ = event.hosts;
  homes_ = event.homes;
  for (std::size_t i = 0; homes_.count > 0 && i < hosts_.size(); ++i) {
    if (hosts_[i] != PeerId{}) last_homes_[hosts_[i]] = homes_.of[i / stages];
  }
  counting_ = {event.resume_step, {}};
  if (event.resume_step < step_) ++set_back_;
  step_ = event.resume_step;
  losses_.resize(step_);
  losses_stored_ = step_;
  std::erase_if(held_out_, [this](const HeldOutMeasured& of) { return of.step > step_; });
  if (skipped_.empty() || skipped_.back() < step_) return Status::Ok();
  last_skipped_.clear();
  while (!skipped_.empty() && skipped_.back() >= step_) skipped_.pop_back();
  return Status::Ok();
}

// It may come ahead of its step, which may be planned already.
Status RunHistory::On(const PipelinesCount& event) {
  if (generation_ == 0) return DataLoss("pipelines count before there is a plan");
  if (event.step < step_ || event.anew() < counting_.anew()) {
    return DataLoss("which pipelines count changed at a step that was applied before");
  }
  // A pipeline has at least one host; older logs name none.
  if (event.pipelines.empty() || (!hosts_.empty() && event.pipelines.back() >= hosts_.size())) {
    return DataLoss("pipelines count that the plan does not have");
  }
  const std::size_t stages = sample_order_ ? sample_order_->stages : 0;
  for (const auto& [pipeline, stage] : event.lost) {
    const bool known = stages > 0 && !hosts_.empty();
    if (!known || (stage < stages && pipeline < hosts_.size() / stages)) continue;
    return DataLoss("somebody left a position that the plan does not have");
  }
  counting_ = event;
  if (!hosts_.empty() && stages > 0) Leave(event);
  return Status::Ok();
}

// Where an older log does not say who, the pipelines that do not count.
void RunHistory::Leave(const PipelinesCount& event) {
  const std::size_t stages = sample_order_->stages;
  for (const auto& [pipeline, stage] : event.lost) {
    hosts_[std::size_t{pipeline} * stages + stage] = PeerId{};
  }
  const bool older = event.dealt_until > 0 && event.lost.empty();
  for (std::uint32_t p = 0; older && p < hosts_.size() / stages; ++p) {
    const bool left = event.gone.empty() ? !std::ranges::binary_search(event.pipelines, p)
                                         : std::ranges::binary_search(event.gone, p);
    if (left)
      std::fill_n(hosts_.begin() + static_cast<std::ptrdiff_t>(p * stages), stages, PeerId{});
  }
}

Status RunHistory::On(const LossesKnown& event) {
  if (event.first_step != losses_.size()) return DataLoss("losses of some steps are missing");
  losses_.insert(losses_.end(), event.losses.begin(), event.losses.end());
  losses_stored_ = step_ = losses_.size();
  trained_ += event.losses.size();
  return Status::Ok();
}

// A step that is repeated measures again.
Status RunHistory::On(const HeldOutMeasured& event) {
  std::erase_if(held_out_, [&](const HeldOutMeasured& of) { return of.step >= event.step; });
  held_out_.push_back(event);
  return Status::Ok();
}

Status RunHistory::On(const StepSkipped& event) {
  if (event.step != step_ || (!skipped_.empty() && skipped_.back() >= event.step)) {
    return DataLoss("a step was skipped out of its turn");
  }
  skipped_.push_back(event.step);
  last_skipped_ = event.cause;
  return Status::Ok();
}

Status RunHistory::On(const CheckpointMade& event) {
  if (event.step > losses_.size()) return DataLoss("a checkpoint is of an unknown step");
  // One of an earlier step: the run went back to it.
  older_ = event.step > checkpoint_.step ? std::move(checkpoint_) : Checkpoint{};
  checkpoint_ = {event.step, {}};
  for (const control::v1::ArtefactRef& file : event.files) checkpoint_.files[file.name()] = file;
  return Status::Ok();
}

Status RunHistory::On(const RunHeld&) {
  held_ = true;
  return Status::Ok();
}

Status RunHistory::On(const RunReleased&) {
  held_ = false;
  return Status::Ok();
}

// Nobody is where the newest plan put it, and what peers hold is of steps that are not known here.
Status RunHistory::On(const RunRestored& event) {
  if (event.generation <= generation_ || event.step != checkpoint_.step) {
    return DataLoss("the run was restored from a copy of something else");
  }
  generation_ = event.generation;
  hosts_.clear();
  homes_ = {};
  counting_ = {step_, {}};
  return Status::Ok();
}

Status RunHistory::On(const RunFinished&) { return Status::Ok(); }

}  // namespace shoal::scheduler
