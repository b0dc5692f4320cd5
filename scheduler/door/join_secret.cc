#include "scheduler/door/join_secret.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "common/file.h"
#include "net/identity/identity.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kSecretBytesMax = 256;

}  // namespace

Result<std::string> LoadOrCreateJoinSecret(const std::string& directory) {
  const std::string path = directory + "/join_secret";
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    Result<std::string> secret = ReadFile(path, kSecretBytesMax);
    const bool too_large = secret.status().code() == StatusCode::kResourceExhausted;
    if (!secret.ok() && !too_large) return secret.status();
    while (secret.ok() && secret->ends_with('\n')) secret->pop_back();
    if (too_large || !net::IsJoinSecret(*secret)) {
      return DataLoss(path + " is damaged; delete it, and send a new invite to your peers");
    }
    return secret;
  }
  std::string secret = net::NewJoinSecret();
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path, secret + "\n", 0600));
  return secret;
}

}  // namespace shoal::scheduler
