#include "replica/collective/direct/chunk_schedule.h"

#include <utility>

namespace shoal::collective {

ChunkSchedule::ChunkSchedule(Config config)
    : config_(std::move(config)),
      begun_(config_.chunks.size()),
      answered_(config_.chunks.size()),
      last_owner_(config_.rank) {
  if (!config_.sends) return;
  for (std::size_t r = 0; r < config_.chunks.size(); ++r) {
    if (!config_.gather || r == config_.rank) left_ += config_.chunks[r];
  }
}

// Whether the next chunk of this shard is within the window of every owner that has not answered
// all of its own yet. A member that goes ahead of an owner behind waits for that owner's shard in
// the end, with an idle line.
bool ChunkSchedule::MayBeSent(std::size_t owner) const {
  if (config_.gather && owner != config_.rank) return false;
  for (std::size_t r = 0; r < config_.chunks.size(); ++r) {
    const std::size_t chunks = config_.chunks[r];
    if (answered_[r] == chunks || (config_.gather && r == config_.rank)) continue;
    if (begun_[owner] * chunks >= (answered_[r] + config_.window) * config_.chunks[owner]) {
      return false;
    }
  }
  return true;
}

// All shards begin early, and members begin with different ones, so that nobody gets all first
// messages at once.
std::optional<ChunkId> ChunkSchedule::Next() {
  if (left_ == 0) return std::nullopt;
  const std::vector<std::size_t>& chunks = config_.chunks;
  std::optional<std::size_t> next;
  for (std::size_t i = 1; i <= chunks.size(); ++i) {
    const std::size_t owner = (last_owner_ + i) % chunks.size();
    if (begun_[owner] == chunks[owner] || !MayBeSent(owner)) continue;
    if (!next || begun_[owner] * chunks[*next] < begun_[*next] * chunks[owner]) next = owner;
  }
  if (!next) return std::nullopt;
  last_owner_ = *next;
  --left_;
  return ChunkId{*next, begun_[*next]++};
}

}  // namespace shoal::collective
