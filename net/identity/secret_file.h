// A random secret of a program, kept in a file that only its user can read. Blocks on disk.

#ifndef SHOAL_NET_IDENTITY_SECRET_FILE_H_
#define SHOAL_NET_IDENTITY_SECRET_FILE_H_

#include <string>

#include "common/status.h"

namespace shoal::net {

// 16 bytes, hex, of `path`, which is made (mode 0600) if it is missing. Data loss: it is damaged;
// the message ends with `remedy`.
Result<std::string> LoadOrCreateSecret(const std::string& path, const std::string& remedy);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_SECRET_FILE_H_
