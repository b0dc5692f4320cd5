#include "storage/files/new_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/file.h"
#include "storage/files/atomic_file.h"

namespace shoal::storage {
namespace {

namespace fs = std::filesystem;

}  // namespace

Result<NewFolder> NewFolder::Begin(const std::string& target) {
  std::string place = target;
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  std::error_code error;
  const fs::file_status status = fs::symlink_status(place, error);
  const bool empty = fs::is_directory(status) && fs::is_empty(place, error) && !error;
  if (fs::exists(status) && !empty) {
    return AlreadyExists(place +
                         " exists and is not an empty folder; nothing was written, give "
                         "another path or remove it");
  }
  const std::string parent = fs::path(place).parent_path().string();
  if (!parent.empty()) SHOAL_RETURN_IF_ERROR(MakeDirectories(parent));
  std::string made = place + ".tmp-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) return FromErrno(errno, "create folder " + made);
  NewFolder folder(place, std::move(made));
  if (::chmod(folder.path().c_str(), 0755) != 0) return FromErrno(errno, "chmod " + place);
  return folder;
}

NewFolder::NewFolder(std::string target, std::string scratch)
    : target_(std::move(target)), scratch_(std::move(scratch)) {}

NewFolder::NewFolder(NewFolder&& other) noexcept
    : target_(std::move(other.target_)), scratch_(std::exchange(other.scratch_, "")) {}

NewFolder::~NewFolder() {
  std::error_code error;
  if (!scratch_.empty()) fs::remove_all(scratch_, error);
}

Status NewFolder::Commit() {
  // rename replaces an empty folder and fails on any other.
  if (::rename(scratch_.c_str(), target_.c_str()) != 0) {
    return FromErrno(errno, "move the finished folder to " + target_);
  }
  scratch_.clear();
  return SyncFolder(fs::path(target_).parent_path().string());
}

}  // namespace shoal::storage
