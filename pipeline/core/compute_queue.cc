#include "pipeline/core/compute_queue.h"

#include <utility>

namespace shoal::pipeline {

ComputeQueue::ComputeQueue(Executor* control, Executor* compute, const TaskScope& scope)
    : shared_(std::make_shared<Shared>()) {
  shared_->control = control;
  shared_->compute = compute;
  shared_->cancelled = scope.token();
}

void ComputeQueue::Start(std::shared_ptr<Operation> operation) {
  SHOAL_ASSERT_ON(*shared_->control);
  PostPart(shared_, operation);
}

bool ComputeQueue::Offer(std::shared_ptr<Operation> operation, bool urgent) {
  SHOAL_ASSERT_ON(*shared_->control);
  MutexLock lock(shared_->mutex);
  if (shared_->offered && shared_->offer == nullptr) return false;  // it has begun
  shared_->offered = operation != nullptr;
  shared_->offer = std::move(operation);
  shared_->urgent = urgent;
  return true;
}

void ComputeQueue::PostPart(const std::shared_ptr<Shared>& shared,
                            const std::shared_ptr<Operation>& operation) {
  auto go = [shared, operation] {
    shared->compute->Post(operation->name, [shared, operation] { RunPart(shared, operation); });
  };
  operation->before ? operation->before(std::move(go)) : go();
}

void ComputeQueue::RunPart(const std::shared_ptr<Shared>& shared,
                           const std::shared_ptr<Operation>& operation) {
  if (*shared->cancelled) return;
  const PartEnd end = operation->run();
  std::shared_ptr<Operation> next = Follow(shared.get(), end);
  const bool more = end == PartEnd::kMore && next == nullptr;
  if (more && !operation->before) return PostPart(shared, operation);
  const bool begins = next != nullptr && !next->before;
  shared->control->Post(operation->name, [shared, operation, end, next] {
    if (!*shared->cancelled) PartEnded(shared, operation, end, next);
  });
  if (begins) PostPart(shared, next);
}

void ComputeQueue::PartEnded(const std::shared_ptr<Shared>& shared,
                             const std::shared_ptr<Operation>& operation, PartEnd end,
                             std::shared_ptr<Operation> next) {
  bool begun = next != nullptr && !next->before;
  if (next == nullptr) next = Follow(shared.get(), end);  // offered since
  if (next == nullptr && end == PartEnd::kMore && operation->before) {
    return PostPart(shared, operation);
  }
  if (next != nullptr && !next->before && !std::exchange(begun, true)) PostPart(shared, next);
  if (next != nullptr) shared->offered = false;
  operation->ended(next != nullptr);
  if (next != nullptr && !begun && !*shared->cancelled) PostPart(shared, next);
}

std::shared_ptr<Operation> ComputeQueue::Follow(Shared* shared, PartEnd end) {
  MutexLock lock(shared->mutex);
  const bool may = end == PartEnd::kOver || (end == PartEnd::kMore && shared->urgent);
  return may ? std::exchange(shared->offer, nullptr) : nullptr;
}

}  // namespace shoal::pipeline
