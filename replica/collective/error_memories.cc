#include "replica/collective/error_memories.h"

#include <algorithm>
#include <utility>

namespace shoal::collective {

namespace {

using compression::VectorOp;

// A chunk of values that begin at `first`; nothing where there is no memory.
template <typename T>
std::span<T> Cut(std::span<T> values, std::size_t first, ValueRange chunk) {
  if (values.empty()) return {};
  return values.subspan(chunk.begin - first, chunk.size());
}

// Empty: zeros. `result` may be `after`.
void Blend(std::span<const float> before, std::span<const float> after, float factor,
           std::span<float> result) {
  if (before.empty()) {
    for (std::size_t i = 0; i < after.size(); ++i) result[i] = after[i] * factor;
  } else if (after.empty()) {
    for (std::size_t i = 0; i < before.size(); ++i) result[i] = before[i] - before[i] * factor;
  } else {
    for (std::size_t i = 0; i < before.size(); ++i) {
      result[i] = before[i] + (after[i] - before[i]) * factor;
    }
  }
}

}  // namespace

Result<std::shared_ptr<ErrorMemory>> ErrorMemory::New(const compression::ValueHome& home,
                                                      const MemoryPlace& at, bool worker_errs,
                                                      bool server_errs) {
  auto memory = std::make_shared<ErrorMemory>(at);
  if (worker_errs) {
    SHOAL_ASSIGN_OR_RETURN(memory->worker, home.Allocate(at.layout.values()));
  }
  if (server_errs) {
    SHOAL_ASSIGN_OR_RETURN(memory->server, home.Allocate(at.own.size()));
  }
  return memory;
}

Result<std::span<const float>> WorkerError(const compression::ValueHome& home,
                                           const ErrorMemory* memory, const MemoryPlace& place,
                                           ValueRange chunk, Buffer* folded) {
  if (memory == nullptr || memory->empty()) return std::span<const float>();
  const std::span<const float> worker = Cut(memory->worker.floats(), 0, chunk);
  if (memory->place == place) return worker;
  SHOAL_ASSIGN_OR_RETURN(*folded, home.Allocate(chunk.size()));
  const std::span<float> errors = folded->floats();
  if (worker.empty()) {
    SHOAL_RETURN_IF_ERROR(home.Zero(errors));
  } else {
    SHOAL_RETURN_IF_ERROR(home.Update(VectorOp::kCopy, worker, 1, errors));
    const float scale = memory->place.part / place.part;
    if (scale != 1) SHOAL_RETURN_IF_ERROR(home.Update(VectorOp::kScale, {}, scale, errors));
  }
  const ValueRange own = memory->place.own;
  const ValueRange both{std::max(own.begin, chunk.begin), std::min(own.end, chunk.end)};
  if (!memory->server.empty() && both.begin < both.end) {
    SHOAL_RETURN_IF_ERROR(home.Update(
        VectorOp::kAddScaled, Cut(std::as_const(memory->server).floats(), own.begin, both),
        1 / place.part, errors.subspan(both.begin - chunk.begin, both.size())));
  }
  return std::span<const float>(errors);
}

std::span<const float> ServerError(const ErrorMemory* memory, const MemoryPlace& place,
                                   ValueRange chunk) {
  if (memory == nullptr || memory->place != place) return {};
  return Cut(memory->server.floats(), memory->place.own.begin, chunk);
}

std::span<float> WorkerError(ErrorMemory* memory, ValueRange chunk) {
  if (memory == nullptr) return {};
  return Cut(memory->worker.floats(), 0, chunk);
}

std::span<float> ServerError(ErrorMemory* memory, ValueRange chunk) {
  if (memory == nullptr) return {};
  return Cut(memory->server.floats(), memory->place.own.begin, chunk);
}

Status Blend(const MemoryStep& step, float factor) {
  const MemoryPlace& place = step.after->place;
  const ErrorMemory nothing(place);
  const ErrorMemory& before = step.before != nullptr ? *step.before : nothing;
  Buffer folded;
  SHOAL_ASSIGN_OR_RETURN(
      const std::span<const float> worker,
      WorkerError(*compression::HostValues(), &before, place, {0, place.layout.values()}, &folded));
  Blend(worker, step.after->worker.floats(), factor, step.result->worker.floats());
  Blend(ServerError(&before, place, place.own), step.after->server.floats(), factor,
        step.result->server.floats());
  return Status::Ok();
}

std::shared_ptr<const ErrorMemory> ErrorMemories::Find(std::uint32_t tensor,
                                                       std::size_t values) const {
  for (const ByTensor* memories : {&put_, &committed_}) {
    const auto found = memories->find(tensor);
    if (found == memories->end()) continue;
    return found->second->place.layout.values() == values ? found->second : nullptr;
  }
  return nullptr;
}

Result<std::shared_ptr<ErrorMemory>> ErrorMemories::Fresh(std::uint32_t tensor,
                                                          const MemoryPlace& place,
                                                          bool worker_errs, bool server_errs) {
  if (const auto found = spare_.find(tensor); found != spare_.end()) {
    std::shared_ptr<ErrorMemory> spare = std::move(found->second);
    spare_.erase(found);
    const bool fits = spare->place == place && spare->worker.empty() != worker_errs &&
                      spare->server.empty() != server_errs;
    if (fits) return spare;
  }
  return ErrorMemory::New(*home_, place, worker_errs, server_errs);
}

void ErrorMemories::Put(std::uint32_t tensor, std::shared_ptr<ErrorMemory> memory) {
  put_[tensor] = std::move(memory);
}

void ErrorMemories::MarkRead(std::uint32_t tensor) {
  for (const ByTensor* memories : {&put_, &committed_}) {
    if (const auto found = memories->find(tensor); found != memories->end()) {
      found->second->read = true;
    }
  }
}

Result<std::vector<MemoryStep>> ErrorMemories::Steps() {
  std::vector<MemoryStep> steps;
  for (auto& [tensor, memory] : put_) {
    MemoryStep step;
    const MemoryPlace& place = memory->place;
    const auto found = committed_.find(tensor);
    if (found != committed_.end() &&
        found->second->place.layout.values() == place.layout.values()) {
      step.before = found->second;
    }
    const bool stays = step.before != nullptr && step.before->place == place;
    const bool worker =
        step.before != nullptr && !(stays ? step.before->worker.empty() : step.before->empty());
    const bool server = stays && !step.before->server.empty();
    const bool fits =
        worker <= !memory->worker.empty() && server <= !memory->server.empty() && !memory->read;
    step.after = memory;
    if (!fits) {
      SHOAL_ASSIGN_OR_RETURN(
          memory, ErrorMemory::New(*home_, step.after->place, worker || !step.after->worker.empty(),
                                   server || !step.after->server.empty()));
    }
    step.result = memory;
    steps.push_back(std::move(step));
  }
  return steps;
}

ErrorMemories::ByTensor ErrorMemories::Take() {
  // A task of a round that was given up may read them for a while.
  for (auto& [tensor, memory] : committed_) memory->read = true;
  return std::exchange(committed_, {});
}

void ErrorMemories::Commit() {
  for (auto& [tensor, memory] : put_) {
    std::shared_ptr<ErrorMemory>& old = committed_[tensor];
    if (reuse_ && old != nullptr && !old->read) spare_[tensor] = std::move(old);
    old = std::move(memory);
  }
  put_.clear();
}

void ErrorMemories::Rollback() { put_.clear(); }

}  // namespace shoal::collective
