#include "common/memory/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

namespace shoal {
namespace {

constexpr std::size_t kSharedBytesMax = std::size_t{128} << 20;

// Blocks from here on, which the pool rarely keeps, get pages of this size where the system has
// them: one page fault for 512.
constexpr std::size_t kHugeBytesMin = std::size_t{16} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t RoundUp(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::size_t BlockPool::Capacity(std::size_t bytes) {
  if (bytes < kPooledBytesMin) return RoundUp(std::max<std::size_t>(bytes, 1), kAlignment);
  // Eight classes per power of two.
  return RoundUp(bytes, std::bit_floor(bytes) / 8);
}

std::size_t BlockPool::UnlessSanitized([[maybe_unused]] std::size_t kept_bytes_max) {
#if defined(SHOAL_SANITIZED)
  return 0;
#else
  return kept_bytes_max;
#endif
}

BlockPool::~BlockPool() { Trim(); }

std::byte* BlockPool::Take(std::size_t bytes) {
  const std::size_t capacity = Capacity(bytes);
  if (capacity >= kPooledBytesMin) {
    MutexLock lock(mutex_);
    // The newest is most likely still in a cache.
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [capacity](const Kept& kept) {
      return kept.capacity == capacity;
    });
    if (found != kept_.rend()) {
      std::byte* const block = found->block;
      kept_bytes_ -= capacity;
      kept_.erase(std::next(found).base());
      return block;
    }
  }
  // From kHugeBytesMin on a capacity is a multiple of kHugePage.
  const bool huge = capacity >= kHugeBytesMin;
  void* const block = std::aligned_alloc(huge ? kHugePage : kAlignment, capacity);
  if (huge && block != nullptr) madvise(block, capacity, MADV_HUGEPAGE);  // a wish
  return static_cast<std::byte*>(block);
}

void BlockPool::Give(std::byte* block, std::size_t bytes) {
  const std::size_t capacity = Capacity(bytes);
  if (block == nullptr) return;
  if (capacity < kPooledBytesMin || capacity > kept_bytes_max_) return std::free(block);
  std::vector<std::byte*> old;  // freed without the lock
  {
    MutexLock lock(mutex_);
    kept_.push_back({block, capacity});
    kept_bytes_ += capacity;
    while (kept_bytes_ > kept_bytes_max_) {
      old.push_back(kept_.front().block);
      kept_bytes_ -= kept_.front().capacity;
      kept_.pop_front();
    }
  }
  for (std::byte* const freed : old) std::free(freed);
}

void BlockPool::Trim() {
  std::deque<Kept> kept;
  {
    MutexLock lock(mutex_);
    kept.swap(kept_);
    kept_bytes_ = 0;
  }
  for (const Kept& freed : kept) std::free(freed.block);
}

std::size_t BlockPool::kept_bytes() const {
  MutexLock lock(mutex_);
  return kept_bytes_;
}

BlockPool& SharedBlockPool() {
  static BlockPool* const pool = new BlockPool(BlockPool::UnlessSanitized(kSharedBytesMax));
  return *pool;
}

}  // namespace shoal
