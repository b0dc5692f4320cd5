// ChunkSchedule: which of its chunks a member of a direct exchange sends next. Internal to
// collective/. Pure. Thread: any, one at a time.

#ifndef SHOAL_REPLICA_COLLECTIVE_DIRECT_CHUNK_SCHEDULE_H_
#define SHOAL_REPLICA_COLLECTIVE_DIRECT_CHUNK_SCHEDULE_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace shoal::collective {

struct ChunkId {
  std::size_t owner, chunk;
};

class ChunkSchedule {
 public:
  struct Config {
    std::vector<std::size_t> chunks;  // by owner
    std::size_t rank = 0;
    // All-gather: only own chunks are sent, and nobody answers; other members' chunks that arrived
    // count as answers.
    bool gather = false;
    bool sends = true;       // false: this member only listens
    std::size_t window = 1;  // chunks that may be ahead of an owner's answers
  };

  ChunkSchedule() = default;
  explicit ChunkSchedule(Config config);

  // The next chunk: of the owner whose shard is least advanced; of several such of each in turn.
  // Nothing: none is left, or the windows are full.
  std::optional<ChunkId> Next();
  // A further chunk of the owner's shard is summed; in an all-gather: has arrived.
  void Answered(std::size_t owner) { ++answered_[owner]; }

  bool all_begun() const { return left_ == 0; }
  std::size_t answered(std::size_t owner) const { return answered_[owner]; }

 private:
  bool MayBeSent(std::size_t owner) const;

  Config config_;
  std::vector<std::size_t> begun_;     // chunks by owner
  std::vector<std::size_t> answered_;  // chunks by owner
  std::size_t last_owner_ = 0;
  std::size_t left_ = 0;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_DIRECT_CHUNK_SCHEDULE_H_
