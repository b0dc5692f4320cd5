#include "collective/error_memories.h"

#include <utility>

namespace shoal::collective {

namespace {

// A chunk of values that begin at `first`; nothing where there is no memory.
template <typename T>
std::span<T> Cut(std::span<T> values, std::size_t first, ValueRange chunk) {
  if (values.empty()) return {};
  return values.subspan(chunk.begin - first, chunk.size());
}

}  // namespace

ErrorMemory::ErrorMemory(const ShardLayout& of, std::size_t rank, bool worker_errs,
                         bool server_errs)
    : layout(of), own(of.shard(rank)) {
  if (worker_errs) worker = Buffer(layout.values() * sizeof(float));
  if (server_errs) server = Buffer(own.size() * sizeof(float));
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

std::shared_ptr<const ErrorMemory> ErrorMemories::Find(std::uint32_t tensor,
                                                       const ShardLayout& layout) const {
  for (const ByTensor* memories : {&put_, &committed_}) {
    const auto found = memories->find(tensor);
    if (found == memories->end()) continue;
    return found->second->layout == layout ? found->second : nullptr;
  }
  return nullptr;
}

std::shared_ptr<ErrorMemory> ErrorMemories::Fresh(std::uint32_t tensor, const ShardLayout& layout,
                                                  std::size_t rank, bool worker_errs,
                                                  bool server_errs) {
  if (const auto found = spare_.find(tensor); found != spare_.end()) {
    std::shared_ptr<ErrorMemory> spare = std::move(found->second);
    spare_.erase(found);
    const bool fits = spare->layout == layout && spare->own == layout.shard(rank) &&
                      spare->worker.empty() != worker_errs && spare->server.empty() != server_errs;
    if (fits) return spare;
  }
  return std::make_shared<ErrorMemory>(layout, rank, worker_errs, server_errs);
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
