// manifest.json of a checkpoint (docs/STORAGE.md "Checkpoints").

#ifndef SHOAL_STORAGE_CHECKPOINTS_CHECKPOINT_MANIFEST_H_
#define SHOAL_STORAGE_CHECKPOINTS_CHECKPOINT_MANIFEST_H_

#include <string>

#include "common/status.h"
#include "storage/checkpoints/checkpoint_store.h"

namespace shoal::storage {

inline constexpr const char* kManifestName = "manifest.json";

std::string FormatCheckpointManifest(const Checkpoint& checkpoint);
// Everything but `folder`. Unimplemented for a newer format, invalid argument for anything that is
// no manifest. `name` is for messages.
Result<Checkpoint> ParseCheckpointManifest(const std::string& text, const std::string& name);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_CHECKPOINTS_CHECKPOINT_MANIFEST_H_
