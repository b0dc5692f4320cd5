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
#include "common/open_file.h"
#include "common/regular_file.h"
#include "storage/checkpoints/checkpoint_manifest.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/files/atomic_file.h"
#include "storage/files/atomic_folder.h"
#include "storage/files/content_hash.h"
#include "storage/files/foreign_text.h"

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

// Hashes one file of a new checkpoint and makes its bytes durable.
Result<ArtefactRef> SealFile(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error)) || name == kManifestName) {
    return InvalidArgument("a checkpoint holds plain files only, and none called manifest.json; " +
                           Quoted(name) + " is not allowed");
  }
  SHOAL_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path.string()));
  Result<FileHash> hashed = HashDescriptor(fd, path.string());
  if (hashed.ok() && ::fsync(fd) != 0) hashed = FromErrno(errno, "fsync " + path.string());
  ::close(fd);
  if (!hashed.ok()) return hashed.status();
  return ArtefactRef{name, hashed->hash, hashed->size};
}

// Step folders of a run's folder, oldest first.
std::vector<std::string> StepNames(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kFolderPrefix) && at->is_directory(error)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Of a checkpoint, or of a run. Manifests first: what a power cut leaves then counts as none.
std::error_code RemoveFolder(const std::string& folder) {
  std::error_code error;
  fs::remove(folder + "/" + kManifestName, error);
  for (const std::string& name : StepNames(folder)) {
    fs::remove(folder + "/" + name + "/" + kManifestName, error);
  }
  fs::remove_all(folder, error);
  return error;
}

Result<Checkpoint> ReadManifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kManifestBytesMax));
  SHOAL_ASSIGN_OR_RETURN(Checkpoint checkpoint, ParseCheckpointManifest(text, path));
  if (checkpoint.step > kStepMax ||
      FolderName(checkpoint.step) != fs::path(folder).filename().string()) {
    return InvalidArgument(path + " is of another step than its folder");
  }
  checkpoint.folder = folder;
  return checkpoint;
}

// Files of two checkpoints may be one file, so this is at most what deleting them gives back.
std::uint64_t BytesOf(const Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for (const ArtefactRef& file : checkpoint.files) bytes += file.size;
  return bytes;
}

class FileCheckpointStore final : public CheckpointStore {
 public:
  explicit FileCheckpointStore(std::string path) : path_(std::move(path)) {}

  Status Prepare();

  Result<Checkpoint> Save(RunId run, std::uint64_t step,
                          const std::function<Status(const std::string& folder)>& write,
                          int keep) override;
  Result<std::vector<Checkpoint>> List(RunId run) override;
  Result<Checkpoint> Load(RunId run, std::uint64_t step) override;
  std::vector<StoredRun> Runs() const override;
  Status DropRun(RunId run) override;

 private:
  std::string RunFolder(RunId run) const { return path_ + "/" + run.ToHex(); }
  std::string StepFolder(RunId run, std::uint64_t step) const {
    return RunFolder(run) + "/" + FolderName(step);
  }
  std::vector<RunId> RunsByAge() const;
  std::vector<Checkpoint> Complete(RunId run) const;
  void SortOlderLayout();
  void DeleteUnfinished(const std::string& path);
  Result<Checkpoint> Fill(RunId run, std::uint64_t step, const std::string& folder,
                          const std::function<Status(const std::string&)>& write) const;
  Result<Checkpoint> SaveOnce(RunId run, std::uint64_t step,
                              const std::function<Status(const std::string&)>& write);
  Status MoveIntoPlace(const std::string& folder, const std::string& target);
  void DeleteOthers(RunId run, std::uint64_t step, int keep);
  bool DropOldest(RunId but);

  const std::string path_;
};

Status FileCheckpointStore::Prepare() {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(path_));
  DeleteUnfinished(path_);
  SortOlderLayout();
  for (const RunId run : RunsByAge()) DeleteUnfinished(RunFolder(run));
  return Status::Ok();
}

// Before runs had folders of their own, steps lay side by side.
void FileCheckpointStore::SortOlderLayout() {
  for (const std::string& name : StepNames(path_)) {
    const Result<Checkpoint> checkpoint = ReadManifest(path_ + "/" + name);
    if (!checkpoint.ok()) continue;
    const std::string folder = RunFolder(checkpoint->run);
    const Status made = MakeDirectories(folder);
    if (made.ok() && ::rename(checkpoint->folder.c_str(), (folder + "/" + name).c_str()) == 0) {
      continue;
    }
    SHOAL_LOG(kWarning, "storage", "checkpoint.not_sorted", {"folder", checkpoint->folder});
  }
}

// Runs that have a folder, the one saved last first.
std::vector<RunId> FileCheckpointStore::RunsByAge() const {
  std::vector<std::pair<fs::file_time_type, RunId>> found;
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    const auto run = RunId::FromHex(at->path().filename().string());
    std::error_code unreadable;
    if (!run.ok() || !at->is_directory(unreadable)) continue;
    // A save renames a folder in it.
    found.emplace_back(fs::last_write_time(at->path(), unreadable), *run);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a > b; });
  std::vector<RunId> runs;
  runs.reserve(found.size());
  for (const auto& [time, run] : found) runs.push_back(run);
  return runs;
}

void FileCheckpointStore::DeleteUnfinished(const std::string& path) {
  std::error_code error;
  for (const std::string& name : StepNames(path)) {
    const std::size_t old = name.find(".old-");
    const std::string target = path + "/" + name.substr(0, old);
    // A power cut between the two renames of a save (ReplaceFolder).
    if (old != name.npos && !fs::exists(target, error))
      fs::rename(path + "/" + name, target, error);
  }
  for (const std::string& name : StepNames(path)) {
    const std::string folder = path + "/" + name;
    if (IsFolderName(name)) {
      const Status status = ReadManifest(folder).status();
      // Only what surely is no checkpoint goes; a newer format or an unreadable disk is left alone.
      if (status.code() != StatusCode::kNotFound && status.code() != StatusCode::kInvalidArgument) {
        continue;
      }
    } else if (name.find(".tmp-") == std::string::npos && name.find(".old-") == std::string::npos) {
      continue;
    }
    SHOAL_LOG(kInfo, "storage", "checkpoint.unfinished", {"deleted", folder});
    RemoveFolder(folder);
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
  const std::string parent = fs::path(target).parent_path().string();
  if (::rename(folder.c_str(), target.c_str()) == 0) return SyncFolder(parent);
  if (errno != ENOTEMPTY && errno != EEXIST) return FromErrno(errno, "rename to " + target);
  // The same step saved again: swapped in one step, so that at every moment one of them is there.
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    SHOAL_RETURN_IF_ERROR(SyncFolder(parent));
    RemoveFolder(folder);
    return Status::Ok();
  }
  return ReplaceFolder(folder, target);  // the file system cannot swap
}

void FileCheckpointStore::DeleteOthers(RunId run, std::uint64_t step, int keep) {
  std::vector<Checkpoint> past;
  for (Checkpoint& checkpoint : Complete(run)) {
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
  std::size_t others = 0;
  for (const RunId other : RunsByAge()) {
    if (other == run || ++others <= kOtherRunsKept) continue;
    SHOAL_LOG(kInfo, "storage", "checkpoint.old_run", {"deleted", RunFolder(other)});
    RemoveFolder(RunFolder(other));
  }
}

// Of the runs but one; false if there is no other.
bool FileCheckpointStore::DropOldest(RunId but) {
  std::vector<RunId> runs = RunsByAge();
  std::erase(runs, but);
  if (runs.empty()) return false;
  SHOAL_LOG(kWarning, "storage", "checkpoint.disk_full", {"deleted", RunFolder(runs.back())});
  return DropRun(runs.back()).ok();
}

Result<Checkpoint> FileCheckpointStore::SaveOnce(
    RunId run, std::uint64_t step, const std::function<Status(const std::string& folder)>& write) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(RunFolder(run)));
  const std::string target = StepFolder(run, step);
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
    return status;
  }
  saved->folder = target;
  return saved;
}

Result<Checkpoint> FileCheckpointStore::Save(
    RunId run, std::uint64_t step, const std::function<Status(const std::string& folder)>& write,
    int keep) {
  if (keep < 1 || step > kStepMax) {
    return InvalidArgument("cannot save step " + std::to_string(step) + " keeping " +
                           std::to_string(keep) + ": keep at least 1, at most step 999999999999");
  }
  Result<Checkpoint> saved = SaveOnce(run, step, write);
  while (saved.status().code() == StatusCode::kResourceExhausted && DropOldest(run)) {
    saved = SaveOnce(run, step, write);
  }
  if (!saved.ok()) {
    return saved.status().WithContext("checkpoint of step " + std::to_string(step) + " not saved");
  }
  DeleteOthers(run, step, keep);
  return saved;
}

std::vector<Checkpoint> FileCheckpointStore::Complete(RunId run) const {
  std::vector<Checkpoint> list;
  for (const std::string& name : StepNames(RunFolder(run))) {
    if (!IsFolderName(name)) continue;
    Result<Checkpoint> checkpoint = ReadManifest(RunFolder(run) + "/" + name);
    if (checkpoint.ok() && checkpoint->run == run) list.push_back(std::move(*checkpoint));
  }
  return list;
}

Result<std::vector<Checkpoint>> FileCheckpointStore::List(RunId run) { return Complete(run); }

std::vector<StoredRun> FileCheckpointStore::Runs() const {
  std::vector<StoredRun> runs;
  for (const RunId run : RunsByAge()) {
    StoredRun stored{.run = run};
    for (const Checkpoint& checkpoint : Complete(run)) {
      stored.newest_step = checkpoint.step;
      ++stored.checkpoints;
      stored.bytes += BytesOf(checkpoint);
    }
    if (stored.checkpoints > 0) runs.push_back(stored);
  }
  return runs;
}

Status FileCheckpointStore::DropRun(RunId run) {
  const std::string folder = RunFolder(run);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return NotFound("there are no checkpoints of run " + run.ToHex() + " in " + path_);
  }
  error = RemoveFolder(folder);
  return error ? FromErrno(error.value(), "delete " + folder) : Status::Ok();
}

Result<Checkpoint> FileCheckpointStore::Load(RunId run, std::uint64_t step) {
  const Status missing = NotFound("no complete checkpoint of step " + std::to_string(step) +
                                  " of run " + run.ToHex() + " in " + path_);
  if (step > kStepMax) return missing;
  Result<Checkpoint> checkpoint = ReadManifest(StepFolder(run, step));
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
