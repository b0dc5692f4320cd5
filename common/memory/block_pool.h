// BlockPool: memory for large buffers, kept for the next buffer of the same size class. The buffers
// of micro-batches are megabytes large and live for milliseconds. Given back to the system each
// time, they would cost a page fault and a cleared page per 4 KiB.

#ifndef SHOAL_COMMON_MEMORY_BLOCK_POOL_H_
#define SHOAL_COMMON_MEMORY_BLOCK_POOL_H_

#include <cstddef>
#include <deque>

#include "common/mutex.h"

namespace shoal {

// Thread: any.
class BlockPool {
 public:
  static constexpr std::size_t kAlignment = 64;
  // Smaller ones are left to malloc, which keeps them by itself.
  static constexpr std::size_t kPooledBytesMin = 256 * 1024;

  // Keeps at most so many bytes that nobody uses; the oldest go first.
  explicit BlockPool(std::size_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // What a block for `bytes` bytes really holds: at most an eighth more, where blocks are kept.
  static std::size_t Capacity(std::size_t bytes);

  // A block of Capacity(bytes) bytes, of any content, aligned to kAlignment; null: no memory.
  std::byte* Take(std::size_t bytes);
  // Takes it back; `bytes` as it was taken.
  void Give(std::byte* block, std::size_t bytes);

  // 0 where a sanitizer watches memory, which a block that is taken again would mislead.
  static std::size_t UnlessSanitized(std::size_t kept_bytes_max);

  // Gives back to the system what nobody uses.
  void Trim();

  std::size_t kept_bytes() const;

 private:
  struct Kept {
    std::byte* block;
    std::size_t capacity;
  };

  const std::size_t kept_bytes_max_;
  mutable Mutex mutex_;
  std::deque<Kept> kept_ SHOAL_GUARDED_BY(mutex_);  // oldest first
  std::size_t kept_bytes_ SHOAL_GUARDED_BY(mutex_) = 0;
};

// The process's pool, from which Buffer takes; it keeps up to 128 MiB. Never destroyed: buffers may
// outlive everything else.
BlockPool& SharedBlockPool();

}  // namespace shoal

#endif  // SHOAL_COMMON_MEMORY_BLOCK_POOL_H_
