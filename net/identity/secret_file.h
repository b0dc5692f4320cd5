// Secrets in files that only their user can read. Blocks on disk.

#ifndef SHOAL_NET_IDENTITY_SECRET_FILE_H_
#define SHOAL_NET_IDENTITY_SECRET_FILE_H_

#include <cstdint>
#include <string>

#include "common/status.h"

namespace shoal::net {

// A secret that somebody else wrote. Permission denied: another user can read the file.
Result<std::string> ReadPrivateFile(const std::string& path, std::uint64_t bytes_max);

// A random secret of the program: 16 bytes, hex, of `path`, which is made (mode 0600) if it is
// missing. Data loss: it is damaged; the message ends with `remedy`.
Result<std::string> LoadOrCreateSecret(const std::string& path, const std::string& remedy);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_SECRET_FILE_H_
