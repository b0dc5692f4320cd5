#include "replica/collective/error_memories.h"

#include <utility>

namespace shoal::collective {

namespace {

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
                                                      const ShardLayout& of, std::size_t rank,
                                                      bool worker_errs, bool server_errs) {
  auto memory = std::make_shared<ErrorMemory>(of, rank);
  if (worker_errs) {
    SHOAL_ASSIGN_OR_RETURN(memory->worker, home.Allocate(of.values()));
  }
  if (server_errs) {
    SHOAL_ASSIGN_OR_RETURN(memory->server, home.Allocate(memory->own.size()));
  }
  return memory;
}

std::span<const float> WorkerError(const ErrorMemory* memory, ValueRange chunk) {
  if (memory == nullptr) return {};
  return Cut(memory->worker.floats(), 0, chunk);
}

std::span<const float> ServerError(const ErrorMemory* memory, ValueRange chunk) {
  if (memory == nullptr) return {};
  return Cut(memory->server.floats(), memory->own.begin, chunk);
}

std::span<float> WorkerError(ErrorMemory* memory, ValueRange chunk) {
  if (memory == nullptr) return {};
  return Cut(memory->worker.floats(), 0, chunk);
}

std::span<float> ServerError(ErrorMemory* memory, ValueRange chunk) {
  if (memory == nullptr) return {};
  return Cut(memory->server.floats(), memory->own.begin, chunk);
}

void Blend(const MemoryStep& step, float factor) {
  const ErrorMemory nothing(step.after->layout, 0);
  const ErrorMemory& before = step.before != nullptr ? *step.before : nothing;
  Blend(before.worker.floats(), step.after->worker.floats(), factor, step.result->worker.floats());
  Blend(before.server.floats(), step.after->server.floats(), factor, step.result->server.floats());
}

std::shared_ptr<const ErrorMemory> ErrorMemories::Find(std::uint32_t tensor,
                                                       const ShardLayout& layout) const {
  for (const ByTensor* memories : {&put_, &committed_}) {
    const auto found = memories->find(tensor);
    if (found == memories->end()) continue;
    return found->second->layout == layout ? found->second : nullptr;
  }
  return nullptr;
}

Result<std::shared_ptr<ErrorMemory>> ErrorMemories::Fresh(std::uint32_t tensor,
                                                          const ShardLayout& layout,
                                                          std::size_t rank, bool worker_errs,
                                                          bool server_errs) {
  if (const auto found = spare_.find(tensor); found != spare_.end()) {
    std::shared_ptr<ErrorMemory> spare = std::move(found->second);
    spare_.erase(found);
    const bool fits = spare->layout == layout && spare->own == layout.shard(rank) &&
                      spare->worker.empty() != worker_errs && spare->server.empty() != server_errs;
    if (fits) return spare;
  }
  return ErrorMemory::New(*home_, layout, rank, worker_errs, server_errs);
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

Result<std::vector<MemoryStep>> ErrorMemories::Steps(std::size_t rank) {
  std::vector<MemoryStep> steps;
  for (auto& [tensor, memory] : put_) {
    MemoryStep step;
    const auto found = committed_.find(tensor);
    // A round that found another layout built on zeros.
    if (found != committed_.end() && found->second->layout == memory->layout) {
      step.before = found->second;
    }
    const bool worker = step.before != nullptr && !step.before->worker.empty();
    const bool server = step.before != nullptr && !step.before->server.empty();
    const bool fits =
        worker <= !memory->worker.empty() && server <= !memory->server.empty() && !memory->read;
    step.after = memory;
    if (!fits) {
      SHOAL_ASSIGN_OR_RETURN(memory, ErrorMemory::New(*home_, step.after->layout, rank,
                                                      worker || !step.after->worker.empty(),
                                                      server || !step.after->server.empty()));
    }
    step.result = memory;
    steps.push_back(std::move(step));
  }
  return steps;
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
