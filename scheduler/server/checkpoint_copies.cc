#include "scheduler/server/checkpoint_copies.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "scheduler/server/artefact_ref.h"
#include "storage/files/content_hash.h"

namespace shoal::scheduler {
namespace {

namespace fs = std::filesystem;

// Files of the folder's origin, by name. Without one, a new machine needs model and data.
Status AddOrigin(const std::string& directory, CheckpointCopy* copy) {
  const std::string folder = directory + "/origin";
  std::vector<std::string> names = {"origin.json"};
  std::error_code error;
  for (fs::directory_iterator at(folder + "/model", error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_regular_file(error)) names.push_back("model/" + at->path().filename().string());
  }
  std::ranges::sort(names);
  if (!fs::exists(folder + "/origin.json", error)) return Status::Ok();
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    SHOAL_ASSIGN_OR_RETURN(const storage::FileHash found, storage::HashFile(path));
    copy->run.origin.push_back({name, found.hash, found.size});
    copy->files[found.hash] = path;
  }
  return Status::Ok();
}

}  // namespace

std::vector<storage::ArtefactRef> FilesOf(const ArtefactMap& artefacts) {
  std::vector<storage::ArtefactRef> files;
  for (const auto& [name, artefact] : artefacts) files.push_back(FromProto(artefact));
  return files;
}

std::vector<storage::ContentHash> FilesToPin(const StoredRun& run) {
  std::vector<storage::ContentHash> hashes;
  for (const auto* files : {&run.initial, &run.checkpoint}) {
    for (const storage::ArtefactRef& file : *files) hashes.push_back(file.hash);
  }
  return hashes;
}

Result<CheckpointCopy> MakeCheckpointCopy(const std::string& directory, StoredRun run,
                                          RunStore* disk) {
  CheckpointCopy copy;
  copy.run = std::move(run);
  SHOAL_RETURN_IF_ERROR(disk->log().Replay([&](std::uint64_t, std::string_view event) {
    copy.events.append(event).push_back('\n');
    return Status::Ok();
  }));
  copy.run.events = {"events", storage::HashOf(std::as_bytes(std::span(copy.events))),
                     copy.events.size()};
  SHOAL_RETURN_IF_ERROR(AddOrigin(directory, &copy));
  for (const auto* files : {&copy.run.initial, &copy.run.checkpoint}) {
    for (const storage::ArtefactRef& file : *files) {
      SHOAL_ASSIGN_OR_RETURN(copy.files[file.hash], disk->content().PathOf(file.hash));
    }
  }
  disk->Pin(FilesToPin(copy.run));
  return copy;
}

}  // namespace shoal::scheduler
