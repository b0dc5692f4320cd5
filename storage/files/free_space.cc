#include "storage/files/free_space.h"

#include <sys/statvfs.h>

namespace shoal::storage {

std::optional<std::uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

void FreeSpace::Look() {
  SHOAL_ASSERT_ON(*owner_);
  const TimePoint now = owner_->clock().Now();
  if (looks_ || (looked_ && now - *looked_ < kFreeSpaceEvery)) return;
  looks_ = true;
  looked_ = now;
  store_->Post("disk.free", [this, lives = lives_, owner = owner_, folder = folder_] {
    owner->Post("disk.free", [this, lives, bytes = FreeBytes(folder)] {
      if (!*lives) return;
      looks_ = false;
      bytes_ = bytes;
    });
  });
}

}  // namespace shoal::storage
