// What `git clone` leaves in place of a large file where Git LFS is not installed.

#ifndef SHOAL_COMMON_LFS_POINTER_H_
#define SHOAL_COMMON_LFS_POINTER_H_

#include <string_view>

namespace shoal {

// Whether a file's bytes are such a pointer.
inline bool IsLfsPointer(std::string_view bytes) {
  return bytes.starts_with("version https://git-lfs.github.com/spec/");
}

// Behind the file's name: what is wrong, and what to do.
inline constexpr char kLfsPointer[] =
    "a pointer of Git LFS, not the file itself; fetch it in that folder with: git lfs pull";

}  // namespace shoal

#endif  // SHOAL_COMMON_LFS_POINTER_H_
