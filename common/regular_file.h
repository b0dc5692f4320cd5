// Opening files whose name somebody else chose: whatever lies there, nobody waits.

#ifndef SHOAL_COMMON_REGULAR_FILE_H_
#define SHOAL_COMMON_REGULAR_FILE_H_

#include <cstdint>
#include <string>

#include "common/status.h"

struct stat;  // of <sys/stat.h>

namespace shoal {

// As open(2) with O_CLOEXEC, to read unless `flags` say more, for regular files alone. A folder, a
// pipe and a device are invalid arguments; nobody waits for the other end of a pipe. The caller
// closes the descriptor.
Result<int> OpenRegularFile(const std::string& path, int flags = 0, unsigned mode = 0644);
// What fstat says of it, too.
Result<int> OpenRegularFile(const std::string& path, struct stat* info, int flags = 0,
                            unsigned mode = 0644);

// For libraries that open what they find in a folder by themselves: it holds files and folders
// only. A folder that is not there is fine.
Status CheckFolderOfFiles(const std::string& folder);

// The bytes from `offset` on, at most `max_bytes` of them; "" at the end and behind it.
Result<std::string> ReadFileFrom(const std::string& path, std::uint64_t offset,
                                 std::uint64_t max_bytes);

}  // namespace shoal

#endif  // SHOAL_COMMON_REGULAR_FILE_H_
