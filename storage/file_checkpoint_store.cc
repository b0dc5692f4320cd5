#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "storage/atomic_file.h"
#include "storage/checkpoint_manifest.h"
#include "storage/checkpoint_store.h"
#include "storage/content_hash.h"
#include "storage/foreign_text.h"

namespace shoal::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kManifestBytesMax = 16 << 20;
constexpr std::uint64_t kStepMax = 999'999'999'999;  // what 12 digits hold
constexpr std::string_view kFolderPrefix = "step-";

std::string FolderName(std::uint64_t step) {
  std::string digits = std::to_string(step);
  return std::string(kFolderPrefix) + std::string(12 - digits.size(), '0') + digits;
}

bool IsFolderName(std::string_view name) {
  return name.size() == kFolderPrefix.size() + 12 && name.starts_with(kFolderPrefix) &&
         name.find_first_not_of("0123456789", kFolderPrefix.size()) == std::string_view::npos;
}

void RemoveFolder(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
}

// Hashes one file of a new checkpoint and makes its bytes durable.
Result<ArtefactRef> SealFile(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error)) || name == kManifestName) {
    return InvalidArgument("a checkpoint holds plain files only, and none called manifest.json; " +
                           Quoted(name) + " is not allowed");
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FromErrno(errno, "open " + path.string());
  Result<FileHash> hashed = HashDescriptor(fd, path.string());
  if (hashed.ok() && ::fsync(fd) != 0) hashed = FromErrno(errno, "fsync " + path.string());
  ::close(fd);
  if (!hashed.ok()) return hashed.status();
  return ArtefactRef{name, hashed->hash, hashed->size};
}

class FileCheckpointStore final : public CheckpointStore {
 public:
  explicit FileCheckpointStore(std::string path) : path_(std::move(path)) {}

  Status Prepare() {
    SHOAL_RETURN_IF_ERROR(MakeDirectories(path_));
    DeleteUnfinished();
    return Status::Ok();
  }

  Result<Checkpoint> Save(RunId run, std::uint64_t step,
                          const std::function<Status(const std::string& folder)>& write,
                          int keep) override;
  Result<std::vector<Checkpoint>> List(RunId run) override;
  Result<Checkpoint> Load(RunId run, std::uint64_t step) override;

 private:
  std::string Folder(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> Names() const;
  Result<Checkpoint> ReadManifest(const std::string& name) const;
  void DeleteUnfinished();
  Result<Checkpoint> Fill(RunId run, std::uint64_t step, const std::string& folder,
                          const std::function<Status(const std::string&)>& write) const;
  Status MoveIntoPlace(const std::string& folder, const std::string& target);
  void DeleteOthers(RunId run, std::uint64_t step, int keep);

  const std::string path_;
};

std::vector<std::string> FileCheckpointStore::Names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kFolderPrefix) && at->is_directory(error)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<Checkpoint> FileCheckpointStore::ReadManifest(const std::string& name) const {
  const std::string path = Folder(name) + "/" + kManifestName;
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kManifestBytesMax));
  SHOAL_ASSIGN_OR_RETURN(Checkpoint checkpoint, ParseCheckpointManifest(text, path));
  if (checkpoint.step > kStepMax || FolderName(checkpoint.step) != name) {
    return InvalidArgument(path + " is of another step than its folder");
  }
  checkpoint.folder = Folder(name);
  return checkpoint;
}

void FileCheckpointStore::DeleteUnfinished() {
  for (const std::string& name : Names()) {
    if (IsFolderName(name)) {
      const Status status = ReadManifest(name).status();
      // Only what surely is no checkpoint goes; a newer format or an unreadable disk is left alone.
      if (status.code() != StatusCode::kNotFound && status.code() != StatusCode::kInvalidArgument) {
        continue;
      }
    } else if (name.find(".tmp-") == std::string::npos && name.find(".old-") == std::string::npos) {
      continue;
    }
    SHOAL_LOG(kInfo, "storage", "checkpoint.unfinished", {"deleted", Folder(name)});
    RemoveFolder(Folder(name));
  }
}

Result<Checkpoint> FileCheckpointStore::Fill(
    RunId run, std::uint64_t step, const std::string& folder,
    const std::function<Status(const std::string&)>& write) const {
  SHOAL_RETURN_IF_ERROR(write(folder));
  Checkpoint checkpoint;
  checkpoint.run = run;
  checkpoint.step = step;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    files.push_back(at->path());
  }
  if (error) return FromErrno(error.value(), "list " + folder);
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    SHOAL_ASSIGN_OR_RETURN(ArtefactRef sealed, SealFile(file));
    checkpoint.files.push_back(std::move(sealed));
  }
  SHOAL_RETURN_IF_ERROR(
      WriteFileAtomic(folder + "/" + kManifestName, FormatCheckpointManifest(checkpoint)));
  return checkpoint;
}

Status FileCheckpointStore::MoveIntoPlace(const std::string& folder, const std::string& target) {
  if (::rename(folder.c_str(), target.c_str()) == 0) return SyncFolder(path_);
  if (errno != ENOTEMPTY && errno != EEXIST) return FromErrno(errno, "rename to " + target);
  // The same step saved again: swapped in one step, so that at every moment one of them is there.
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    return FromErrno(errno, "replace " + target);
  }
  RemoveFolder(folder);
  return SyncFolder(path_);
}

void FileCheckpointStore::DeleteOthers(RunId run, std::uint64_t step, int keep) {
  Result<std::vector<Checkpoint>> list = List(run);
  if (!list.ok()) return;
  std::vector<Checkpoint> past;
  for (Checkpoint& checkpoint : *list) {
    // Later steps are of a history that a rollback abandoned.
    if (checkpoint.step > step) {
      RemoveFolder(checkpoint.folder);
    } else {
      past.push_back(std::move(checkpoint));
    }
  }
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < past.size(); ++i) {
    RemoveFolder(past[i].folder);
  }
}

Result<Checkpoint> FileCheckpointStore::Save(
    RunId run, std::uint64_t step, const std::function<Status(const std::string& folder)>& write,
    int keep) {
  if (keep < 1 || step > kStepMax) {
    return InvalidArgument("cannot save step " + std::to_string(step) + " keeping " +
                           std::to_string(keep) + ": keep at least 1, at most step 999999999999");
  }
  const std::string target = Folder(FolderName(step));
  const Result<Checkpoint> existing = ReadManifest(FolderName(step));
  if (existing.ok() && existing->run != run) {
    return FailedPrecondition(target + " belongs to run " + existing->run.ToHex() +
                              "; give every run its own checkpoint folder");
  }
  std::string folder = target + ".tmp-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return FromErrno(errno, "create folder " + folder);
  Result<Checkpoint> saved = Fill(run, step, folder, write);
  Status status = saved.status();
  if (status.ok() && ::chmod(folder.c_str(), 0755) != 0) {
    status = FromErrno(errno, "chmod " + folder);
  }
  if (status.ok()) status = MoveIntoPlace(folder, target);
  if (!status.ok()) {
    RemoveFolder(folder);
    return status.WithContext("checkpoint of step " + std::to_string(step) + " not saved");
  }
  saved->folder = target;
  DeleteOthers(run, step, keep);
  return saved;
}

Result<std::vector<Checkpoint>> FileCheckpointStore::List(RunId run) {
  std::vector<Checkpoint> list;
  for (const std::string& name : Names()) {
    if (!IsFolderName(name)) continue;
    Result<Checkpoint> checkpoint = ReadManifest(name);
    if (checkpoint.ok() && checkpoint->run == run) list.push_back(std::move(*checkpoint));
  }
  return list;
}

Result<Checkpoint> FileCheckpointStore::Load(RunId run, std::uint64_t step) {
  const Status missing = NotFound("no complete checkpoint of step " + std::to_string(step) +
                                  " of run " + run.ToHex() + " in " + path_);
  if (step > kStepMax) return missing;
  Result<Checkpoint> checkpoint = ReadManifest(FolderName(step));
  if (!checkpoint.ok() && checkpoint.status().code() == StatusCode::kUnimplemented) {
    return checkpoint.status();
  }
  if (!checkpoint.ok() || checkpoint->run != run) return missing;
  for (const ArtefactRef& file : checkpoint->files) {
    const std::string path = checkpoint->folder + "/" + file.name;
    const Result<FileHash> hashed = HashFile(path);
    if (!hashed.ok() && hashed.status().code() != StatusCode::kNotFound) return hashed.status();
    if (!hashed.ok() || hashed->size != file.size || hashed->hash != file.hash) {
      return DataLoss(path + " is not what the manifest says; go back to an older checkpoint");
    }
  }
  return checkpoint;
}

}  // namespace

Result<std::unique_ptr<CheckpointStore>> OpenCheckpointStore(const std::string& path) {
  auto store = std::make_unique<FileCheckpointStore>(path);
  SHOAL_RETURN_IF_ERROR(store->Prepare());
  return std::unique_ptr<CheckpointStore>(std::move(store));
}

}  // namespace shoal::storage
