// StoredRun: the manifest of a run's copy in an object store, and the names of its objects
// (docs/STORAGE.md, "Copies of a run"). Pure. Thread: any.

#ifndef SHOAL_SCHEDULER_MIRROR_STORED_RUN_H_
#define SHOAL_SCHEDULER_MIRROR_STORED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

constexpr std::size_t kManifestBytesMax = 16 << 20;
constexpr std::size_t kStoredFilesMax = 100'000;  // of a manifest
constexpr std::string_view kManifestPrefix = "manifests/";
constexpr std::string_view kBlobPrefix = "blobs/";

// All that a new machine needs to go on from one checkpoint. Sizes are at most 2^50.
struct StoredRun {
  RunId run;
  std::uint64_t generation = 0, step = 0;  // step: optimizer steps in the checkpoint, above 0
  std::string config;                      // run.toml
  storage::ArtefactRef events;             // the history, an event a line; it holds the checkpoint
  std::vector<storage::ArtefactRef> initial, checkpoint;  // by name, as the history knows them
  std::vector<storage::ArtefactRef> origin;  // files of <run>/origin: "origin.json", "model/<file>"

  // Each blob once, in order of hashes.
  std::vector<storage::ArtefactRef> Blobs() const;
  bool operator==(const StoredRun&) const = default;
};

std::string FormatStoredRun(const StoredRun& run);
// Data loss: damaged, or none; unimplemented: of a newer version. `name` is for the message.
Result<StoredRun> ParseStoredRun(std::string_view text, const std::string& name);

// "manifests/<generation>-<step>", each with 20 digits: the newest comes last in order of keys.
struct ManifestName {
  std::uint64_t generation = 0, step = 0;
  auto operator<=>(const ManifestName&) const = default;
};
std::string ManifestKey(const ManifestName& name);
std::optional<ManifestName> ParseManifestKey(std::string_view key);

// "blobs/<BLAKE2b-256, 64 hex>".
std::string BlobKey(const storage::ContentHash& hash);
std::optional<storage::ContentHash> ParseBlobKey(std::string_view key);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MIRROR_STORED_RUN_H_
