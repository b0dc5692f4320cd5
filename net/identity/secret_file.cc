#include "net/identity/secret_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "common/file.h"
#include "net/identity/identity.h"

namespace shoal::net {
namespace {

constexpr std::uint64_t kFileBytesMax = 256;

}  // namespace

Result<std::string> ReadPrivateFile(const std::string& path, std::uint64_t bytes_max) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return FromErrno(errno, "read " + path);
  if ((info.st_mode & 0077) != 0) {
    return PermissionDenied(path + " can be read by other users; run: chmod 600 " + path);
  }
  return ReadFile(path, bytes_max);
}

Result<std::string> LoadOrCreateSecret(const std::string& path, const std::string& remedy) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    Result<std::string> secret = ReadFile(path, kFileBytesMax);
    const bool too_large = secret.status().code() == StatusCode::kResourceExhausted;
    if (!secret.ok() && !too_large) return secret.status();
    while (secret.ok() && secret->ends_with('\n')) secret->pop_back();
    if (too_large || !IsJoinSecret(*secret)) return DataLoss(path + " is damaged; " + remedy);
    return secret;
  }
  std::string secret = NewJoinSecret();
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path, secret + "\n", 0600));
  return secret;
}

}  // namespace shoal::net
