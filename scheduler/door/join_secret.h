// The secret of a run's invite, kept in the run's folder, so that an invite line stays good over
// restarts. Blocks on disk.

#ifndef SHOAL_SCHEDULER_DOOR_JOIN_SECRET_H_
#define SHOAL_SCHEDULER_DOOR_JOIN_SECRET_H_

#include <string>

#include "common/status.h"

namespace shoal::scheduler {

// <directory>/join_secret, made if it is missing. Data loss: it is damaged.
Result<std::string> LoadOrCreateJoinSecret(const std::string& directory);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_DOOR_JOIN_SECRET_H_
