#include "daemon/artefacts/kept_checkpoint.h"

#include <algorithm>
#include <set>

#include "common/log.h"

namespace shoal::daemon {

Status KeepCheckpoint(const KeptCheckpoint& kept, storage::ContentStore* content,
                      storage::DeltaStore* deltas) {
  for (const std::string& path : kept.paths) {
    const auto hash = content->PutFile(path);
    if (!hash.ok()) return hash.status();
  }
  SHOAL_RETURN_IF_ERROR(content->KeepOnly(kept.blobs));
  std::set<RunId> forgotten;
  for (const storage::BoundaryEnd& end : deltas->Ends()) {
    if (std::find(kept.runs.begin(), kept.runs.end(), end.run) == kept.runs.end()) {
      forgotten.insert(end.run);
    }
  }
  for (const RunId run : forgotten) {
    SHOAL_LOG(kInfo, "daemon", "delta.old_run", {"dropped", run.ToHex()});
    if (Status dropped = deltas->DropRun(run); !dropped.ok()) {
      SHOAL_LOG(kWarning, "daemon", "delta.old_run", {"reason", dropped.message()});
    }
  }
  // A checkpoint is whole without m: what is not durable is a first visit after a crash.
  if (Status flushed = deltas->Flush(); !flushed.ok()) {
    SHOAL_LOG(kWarning, "daemon", "delta.flush", {"reason", flushed.message()});
  }
  return Status::Ok();
}

}  // namespace shoal::daemon
