#include "storage/delta/delta_store.h"

#include <set>

namespace shoal::storage {

Status DeltaStore::Commit(const DeltaPlace& place, std::span<const DeltaUpdate> updates,
                          std::vector<SampleId>* evicted) {
  std::set<std::uint64_t> versions;
  for (const DeltaUpdate& update : updates) {
    SHOAL_RETURN_IF_ERROR(Stage(place, update));
    versions.insert(update.record.version);
  }
  for (const std::uint64_t version : versions) {
    SHOAL_RETURN_IF_ERROR(CommitStaged(place, version, evicted));
  }
  return Status::Ok();
}

}  // namespace shoal::storage
