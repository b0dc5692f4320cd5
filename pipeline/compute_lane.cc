#include "pipeline/compute_lane.h"

#include <utility>

namespace shoal::pipeline {

ComputeLane::ComputeLane(Executor* control, Executor* compute, const TaskScope& scope)
    : shared_(std::make_shared<Shared>()) {
  shared_->control = control;
  shared_->compute = compute;
  shared_->cancelled = scope.token();
}

void ComputeLane::Start(std::shared_ptr<Operation> operation) { PostPart(shared_, operation); }

bool ComputeLane::Offer(std::shared_ptr<Operation> operation, bool urgent) {
  MutexLock lock(shared_->mutex);
  if (shared_->offered && shared_->offer == nullptr) return false;  // it has begun
  shared_->offered = operation != nullptr;
  shared_->offer = std::move(operation);
  shared_->urgent = urgent;
  return true;
}

void ComputeLane::PostPart(const std::shared_ptr<Shared>& shared,
                           const std::shared_ptr<Operation>& operation) {
  shared->compute->Post(operation->name, [shared, operation] { RunPart(shared, operation); });
}

void ComputeLane::RunPart(const std::shared_ptr<Shared>& shared,
                          const std::shared_ptr<Operation>& operation) {
  if (*shared->cancelled) return;
  const PartEnd end = operation->run();
  std::shared_ptr<Operation> next = Follow(shared.get(), end);
  if (end == PartEnd::kMore && next == nullptr) return PostPart(shared, operation);
  const bool followed = next != nullptr;
  shared->control->Post(operation->name, [shared, operation, end, followed] {
    if (*shared->cancelled) return;
    std::shared_ptr<Operation> late;  // offered since
    if (!followed) late = Follow(shared.get(), end);
    if (late != nullptr) PostPart(shared, late);
    if (followed || late != nullptr) shared->offered = false;
    operation->ended(followed || late != nullptr);
  });
  if (followed) PostPart(shared, next);
}

std::shared_ptr<Operation> ComputeLane::Follow(Shared* shared, PartEnd end) {
  MutexLock lock(shared->mutex);
  const bool may = end == PartEnd::kOver || (end == PartEnd::kMore && shared->urgent);
  return may ? std::exchange(shared->offer, nullptr) : nullptr;
}

}  // namespace shoal::pipeline
