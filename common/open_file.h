// OpenFile: a descriptor that closes itself; and whether this user may have one.

#ifndef SHOAL_COMMON_OPEN_FILE_H_
#define SHOAL_COMMON_OPEN_FILE_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal {

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}  // below 0: none
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Permission denied where this user may not use what is at `path` as `mode` says (access(2)); it
// names what a person can do. OK also where nothing is there.
Status CheckAccess(const std::string& path, int mode);

// All of `bytes` from where the descriptor is; `path` is for the error. Blocks.
Status WriteAll(int fd, std::string_view bytes, const std::string& path);

// Makes names created, renamed or deleted in `folder` durable; empty: the current one. Blocks.
Status SyncFolder(const std::string& folder);

}  // namespace shoal

#endif  // SHOAL_COMMON_OPEN_FILE_H_
