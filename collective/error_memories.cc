#include "collective/error_memories.h"

#include <utility>

namespace shoal::collective {

ErrorMemory::ErrorMemory(const ShardLayout& of, std::size_t rank) : layout(of) {
  worker.resize(layout.members());
  for (std::size_t r = 0; r < worker.size(); ++r) worker[r].resize(layout.chunks(r));
  server.resize(layout.chunks(rank));
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
