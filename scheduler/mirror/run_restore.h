// RunRestore: makes a run's folder on a new machine from its copy in an object store.
//
// Every file is verified by its hash. What is damaged or missing makes the checkpoint before it be
// taken. Blocks on network and disk. Thread: main.

#ifndef SHOAL_SCHEDULER_MIRROR_RUN_RESTORE_H_
#define SHOAL_SCHEDULER_MIRROR_RUN_RESTORE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/status.h"
#include "net/objects/object_store.h"
#include "scheduler/mirror/stored_run.h"

namespace shoal::scheduler {

// Generations that a restored run leaves out: those that peers may have seen since the copy.
constexpr std::uint64_t kGenerationsLeftOut = 1'000'000;

struct RestoreRequest {
  std::string directory;  // absolute; made if missing
  // Of the store, for run.toml: the run is copied there from the new machine, too.
  std::string endpoint, region;
  bool plain_http = false;
  std::uint64_t now_ms = 0;  // since 1970, UTC
};

// What was restored. `say` gets lines for people: what is fetched, and why a newer checkpoint could
// not be taken. Already exists: there is a run in the folder. Not found: the store has no whole
// copy. After any other failure (an unreachable store, a full disk) the same call goes on where it
// was.
Result<StoredRun> RestoreRun(const RestoreRequest& request, net::ObjectStore* store,
                             const std::function<void(const std::string&)>& say);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MIRROR_RUN_RESTORE_H_
