#include "scheduler/mirror/checkpoint_upload.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace shoal::scheduler {

Result<std::vector<ManifestName>> ListManifests(net::ObjectStore* store) {
  SHOAL_ASSIGN_OR_RETURN(const auto objects, store->List(std::string(kManifestPrefix)));
  std::vector<ManifestName> names;
  for (const net::ObjectInfo& object : objects) {
    if (const auto name = ParseManifestKey(object.key)) names.push_back(*name);
  }
  std::ranges::sort(names, std::greater<>());
  return names;
}

Result<StoredRun> ReadManifest(net::ObjectStore* store, const ManifestName& name) {
  const std::string key = ManifestKey(name);
  SHOAL_ASSIGN_OR_RETURN(const std::string text, store->Get(key, 0, kManifestBytesMax + 1));
  SHOAL_ASSIGN_OR_RETURN(StoredRun run, ParseStoredRun(text, store->address() + "/" + key));
  if (run.generation == name.generation && run.step == name.step) return run;
  return DataLoss(store->address() + "/" + key + " is another manifest than its name says");
}

Result<std::vector<ManifestName>> CheckpointUpload::Manifests() { return ListManifests(&store_); }

Result<StoredRun> CheckpointUpload::Read(const ManifestName& name) {
  if (const auto found = known_.find(name); found != known_.end()) return found->second;
  SHOAL_ASSIGN_OR_RETURN(StoredRun run, ReadManifest(&store_, name));
  known_.emplace(name, run);
  return run;
}

Status CheckpointUpload::Check(const RunId& run, std::uint64_t generation) {
  SHOAL_ASSIGN_OR_RETURN(const auto names, Manifests());
  for (const ManifestName& name : names) {
    const auto stored = Read(name);
    if (stored.status().code() == StatusCode::kDataLoss) continue;
    if (!stored.ok()) return stored.status();
    if (stored->run != run) {
      return FailedPrecondition(store_.address() + " holds run " + stored->run.ToHex() +
                                "; give each run a prefix of its own");
    }
    if (stored->generation > generation) {
      return FailedPrecondition(
          store_.address() + " has a checkpoint of generation " +
          std::to_string(stored->generation) + " of this run, which is at generation " +
          std::to_string(generation) + ": another scheduler goes on with it; stop one of the two");
    }
    return Status::Ok();
  }
  return Status::Ok();
}

Status CheckpointUpload::PutBlobs(const CheckpointCopy& copy, std::uint64_t* sent) {
  for (const storage::ArtefactRef& blob : copy.run.Blobs()) {
    if (there_.contains(blob.hash)) continue;
    const std::string key = BlobKey(blob.hash);
    const auto head = store_.Head(key);
    if (!head.ok() && head.status().code() != StatusCode::kNotFound) return head.status();
    if (!head.ok() || head->size != blob.size) {
      if (blob.hash == copy.run.events.hash) {
        SHOAL_RETURN_IF_ERROR(store_.PutBytes(key, copy.events));
      } else {
        const auto file = copy.files.find(blob.hash);
        SHOAL_CHECK(file != copy.files.end());
        SHOAL_RETURN_IF_ERROR(store_.PutFile(key, file->second).WithContext(blob.name));
      }
      *sent += blob.size;
    }
    there_.insert(blob.hash);
  }
  return Status::Ok();
}

// A manifest that is damaged serves nobody, and does not count.
Status CheckpointUpload::DeleteOld() {
  SHOAL_ASSIGN_OR_RETURN(const auto names, Manifests());
  std::map<storage::ContentHash, std::uint64_t> named;  // sizes
  std::map<ManifestName, StoredRun> kept;
  for (const ManifestName& name : names) {
    const auto stored = kept.size() < kStoredCheckpoints ? Read(name) : NotFound("not looked at");
    if (stored.ok()) {
      for (const storage::ArtefactRef& blob : stored->Blobs()) named[blob.hash] = blob.size;
      kept.emplace(name, *stored);
      continue;
    }
    const bool useless =
        kept.size() == kStoredCheckpoints || stored.status().code() == StatusCode::kDataLoss;
    if (!useless) return stored.status();
    SHOAL_RETURN_IF_ERROR(store_.Delete(ManifestKey(name)));
  }
  known_ = std::move(kept);
  SHOAL_ASSIGN_OR_RETURN(const auto blobs, store_.List(std::string(kBlobPrefix)));
  there_.clear();  // somebody else may have deleted some
  for (const net::ObjectInfo& blob : blobs) {
    const auto hash = ParseBlobKey(blob.key);
    if (!hash) continue;
    const auto wanted = named.find(*hash);
    if (wanted == named.end()) {
      SHOAL_RETURN_IF_ERROR(store_.Delete(blob.key));
    } else if (wanted->second == blob.size) {
      there_.insert(*hash);
    }
  }
  return Status::Ok();
}

CheckpointUpload::Outcome CheckpointUpload::Store(const CheckpointCopy& copy) {
  Outcome outcome;
  outcome.status = Check(copy.run.run, copy.run.generation);
  if (!outcome.status.ok()) return outcome;
  outcome.status = PutBlobs(copy, &outcome.sent_bytes);
  if (!outcome.status.ok()) return outcome;
  const ManifestName name{copy.run.generation, copy.run.step};
  const std::string manifest = FormatStoredRun(copy.run);
  outcome.status = store_.PutBytes(ManifestKey(name), manifest);
  if (!outcome.status.ok()) return outcome;
  outcome.sent_bytes += manifest.size();
  outcome.stored = true;
  known_.insert_or_assign(name, copy.run);
  outcome.status = DeleteOld().WithContext("delete what is old");
  return outcome;
}

}  // namespace shoal::scheduler
