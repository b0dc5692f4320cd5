#include "storage/files/atomic_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/file.h"
#include "common/open_file.h"
#include "storage/files/atomic_file.h"

namespace shoal::storage {
namespace {

namespace fs = std::filesystem;

Status CheckTarget(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return Status::Ok();
  if (fs::is_directory(status) && fs::is_empty(path, error) && !error) return Status::Ok();
  return AlreadyExists(path +
                       " exists and is not an empty folder; nothing was written, give "
                       "another path or remove it");
}

}  // namespace

Result<std::unique_ptr<AtomicFolder>> AtomicFolder::Create(const std::string& target) {
  std::string name = target;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  SHOAL_RETURN_IF_ERROR(CheckTarget(name));
  const std::string parent = fs::path(name).parent_path().string();
  if (!parent.empty()) SHOAL_RETURN_IF_ERROR(MakeDirectories(parent));
  std::string made = name + ".tmp-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) return FromErrno(errno, "create folder " + made);
  std::unique_ptr<AtomicFolder> folder(new AtomicFolder(name, std::move(made)));
  if (::chmod(folder->path().c_str(), 0755) != 0) return FromErrno(errno, "chmod " + name);
  return folder;
}

AtomicFolder::~AtomicFolder() {
  std::error_code error;
  if (!committed_) fs::remove_all(path_, error);
}

Status AtomicFolder::Commit() {
  // rename replaces an empty folder and fails on any other.
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    return FromErrno(errno, "move the new folder to " + target_);
  }
  committed_ = true;
  return SyncFolder(fs::path(target_).parent_path().string());
}

Status ReplaceFolder(const std::string& folder, const std::string& target) {
  std::string old = target + ".old-XXXXXX";
  if (::mkdtemp(old.data()) == nullptr) return FromErrno(errno, "create " + old);
  if (::rename(target.c_str(), old.c_str()) != 0) return FromErrno(errno, "replace " + target);
  if (::rename(folder.c_str(), target.c_str()) != 0) {
    const Status failed = FromErrno(errno, "replace " + target);
    (void)::rename(old.c_str(), target.c_str());
    return failed;
  }
  SHOAL_RETURN_IF_ERROR(SyncFolder(fs::path(target).parent_path().string()));
  std::error_code error;
  fs::remove_all(old, error);
  return Status::Ok();
}

}  // namespace shoal::storage
