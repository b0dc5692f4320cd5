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

void ErrorMemories::Put(std::uint32_t tensor, std::shared_ptr<const ErrorMemory> memory) {
  put_[tensor] = std::move(memory);
}

void ErrorMemories::Commit() {
  for (auto& [tensor, memory] : put_) committed_[tensor] = std::move(memory);
  put_.clear();
}

void ErrorMemories::Rollback() { put_.clear(); }

}  // namespace shoal::collective
