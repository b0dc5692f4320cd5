// ErrorMemories: what a member of a stage group did not send yet, by tensor, as a transaction.
//
// Internal to collective/. Thread: the owner's; a memory that was handed out never changes.

#ifndef SHOAL_COLLECTIVE_ERROR_MEMORIES_H_
#define SHOAL_COLLECTIVE_ERROR_MEMORIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collective/shard_layout.h"
#include "common/buffer.h"

namespace shoal::collective {

// fp32, a buffer per chunk; an empty one stands for zeros.
struct ErrorMemory {
  explicit ErrorMemory(const ShardLayout& of, std::size_t rank);

  ShardLayout layout;
  std::vector<std::vector<Buffer>> worker;  // of contributions: by owner, chunk
  std::vector<Buffer> server;               // of sums of the own shard: by chunk
};

class ErrorMemories {
 public:
  // What a round of this layout builds on; null: zeros.
  std::shared_ptr<const ErrorMemory> Find(std::uint32_t tensor, const ShardLayout& layout) const;
  // What a finished round leaves.
  void Put(std::uint32_t tensor, std::shared_ptr<const ErrorMemory> memory);
  // What was put since the last of these two counts from now on, or is dropped.
  void Commit();
  void Rollback();

 private:
  using ByTensor = std::map<std::uint32_t, std::shared_ptr<const ErrorMemory>>;
  ByTensor committed_, put_;
};

}  // namespace shoal::collective

#endif  // SHOAL_COLLECTIVE_ERROR_MEMORIES_H_
