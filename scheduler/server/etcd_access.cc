#include "scheduler/server/etcd_access.h"

#include <cstdint>
#include <string>

#include "common/file.h"
#include "net/identity/secret_file.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kPemBytesMax = 1 << 20;
constexpr std::uint64_t kPasswordBytesMax = 1024;

}  // namespace

Result<net::EtcdAccess> ReadEtcdAccess(const EtcdLogin& login) {
  net::EtcdAccess access;
  access.user = login.user;
  if (!login.ca.empty()) {
    SHOAL_ASSIGN_OR_RETURN(access.ca_pem, ReadFile(login.ca, kPemBytesMax));
  }
  if (!login.cert.empty()) {
    SHOAL_ASSIGN_OR_RETURN(access.cert_pem, ReadFile(login.cert, kPemBytesMax));
  }
  if (!login.key.empty()) {
    SHOAL_ASSIGN_OR_RETURN(access.key_pem, net::ReadPrivateFile(login.key, kPemBytesMax));
  }
  if (login.password_file.empty()) return access;
  SHOAL_ASSIGN_OR_RETURN(access.password,
                         net::ReadPrivateFile(login.password_file, kPasswordBytesMax));
  while (access.password.ends_with('\n') || access.password.ends_with('\r')) {
    access.password.pop_back();
  }
  if (access.password.empty()) {
    return InvalidArgument(login.password_file + " is empty; etcd's password belongs there");
  }
  return access;
}

}  // namespace shoal::scheduler
