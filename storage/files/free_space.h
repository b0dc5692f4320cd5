// FreeSpace: how many bytes the file system of a folder has left for this program, looked at now
// and then on a thread that may block on disk.

#ifndef SHOAL_STORAGE_FILES_FREE_SPACE_H_
#define SHOAL_STORAGE_FILES_FREE_SPACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/executor.h"

namespace shoal::storage {

inline constexpr Duration kFreeSpaceEvery = std::chrono::seconds(10);

// Without what is kept for root; none: nobody can say. Blocks on disk. Thread: any.
std::optional<std::uint64_t> FreeBytes(const std::string& folder);

// Thread: that of `owner`.
class FreeSpace {
 public:
  // Both executors outlive it, and `store` its own tasks.
  FreeSpace(Executor* owner, Executor* store, std::string folder)
      : owner_(owner),
        store_(store),
        folder_(std::move(folder)),
        lives_(std::make_shared<bool>(true)) {}
  ~FreeSpace() { *lives_ = false; }
  FreeSpace(const FreeSpace&) = delete;
  FreeSpace& operator=(const FreeSpace&) = delete;

  // As often as you like: it looks every kFreeSpaceEvery at most.
  void Look();
  // Of the last look; none: not known.
  const std::optional<std::uint64_t>& bytes() const {
    SHOAL_ASSERT_ON(*owner_);
    return bytes_;
  }

 private:
  Executor* const owner_;
  Executor* const store_;
  const std::string folder_;
  const std::shared_ptr<bool> lives_;  // what is posted asks
  bool looks_ = false;
  std::optional<TimePoint> looked_;
  std::optional<std::uint64_t> bytes_;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_FREE_SPACE_H_
