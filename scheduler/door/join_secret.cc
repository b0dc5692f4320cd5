#include "scheduler/door/join_secret.h"

#include "net/identity/secret_file.h"

namespace shoal::scheduler {

Result<std::string> LoadOrCreateJoinSecret(const std::string& directory) {
  return net::LoadOrCreateSecret(directory + "/join_secret",
                                 "delete it, and send a new invite to your peers");
}

}  // namespace shoal::scheduler
