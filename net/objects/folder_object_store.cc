#include "net/objects/folder_object_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "common/open_file.h"
#include "common/regular_file.h"
#include "net/objects/object_address.h"

namespace shoal::net {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCopyBytes = 1 << 20;
// No key ends so: an object that is being written is not listed.
constexpr const char* kUnfinished = "~";

class FolderObjectStore final : public ObjectStore {
 public:
  FolderObjectStore(std::string address, std::string folder, std::stop_token stop)
      : address_(std::move(address)), folder_(std::move(folder)), stop_(std::move(stop)) {}

  const std::string& address() const override { return address_; }
  Status PutBytes(const std::string& key, std::string_view bytes) override;
  Status PutFile(const std::string& key, const std::string& path) override;
  Result<ObjectInfo> Head(const std::string& key) override;
  Result<std::string> Get(const std::string& key, std::uint64_t offset, std::size_t size) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;

 private:
  std::string PathOf(const std::string& key) const { return folder_ + "/" + key; }
  // Of each call: the key is one, and the store may still do something.
  Status Check(const std::string& key) const;
  Status MakeFolderOf(const std::string& key) const;
  Status Copy(const std::string& source, const std::string& target) const;

  const std::string address_, folder_;
  const std::stop_token stop_;
};

Status FolderObjectStore::Check(const std::string& key) const {
  if (stop_.stop_requested()) return Cancelled(address_ + ": told to stop");
  return IsObjectKey(key) ? Status::Ok() : InvalidArgument("'" + key + "' is no key of an object");
}

Status FolderObjectStore::MakeFolderOf(const std::string& key) const {
  return MakeDirectories(fs::path(PathOf(key)).parent_path().string(), 0700);
}

Status FolderObjectStore::PutBytes(const std::string& key, std::string_view bytes) {
  SHOAL_RETURN_IF_ERROR(Check(key));
  SHOAL_RETURN_IF_ERROR(MakeFolderOf(key));
  return WriteFileAtomic(PathOf(key), bytes, 0600);
}

Status FolderObjectStore::Copy(const std::string& source, const std::string& target) const {
  SHOAL_ASSIGN_OR_RETURN(const int from, OpenRegularFile(source));
  const OpenFile in(from);
  SHOAL_ASSIGN_OR_RETURN(const int to, OpenRegularFile(target, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  const OpenFile out(to);
  std::string piece(kCopyBytes, '\0');
  while (true) {
    if (stop_.stop_requested()) return Cancelled(address_ + ": told to stop");
    const ssize_t got = ::read(in.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, "read " + source);
    if (got == 0) break;
    SHOAL_RETURN_IF_ERROR(WriteAll(
        out.fd(), std::string_view(piece).substr(0, static_cast<std::size_t>(got)), target));
  }
  return ::fsync(out.fd()) == 0 ? Status::Ok() : FromErrno(errno, "fsync " + target);
}

Status FolderObjectStore::PutFile(const std::string& key, const std::string& path) {
  SHOAL_RETURN_IF_ERROR(Check(key));
  SHOAL_RETURN_IF_ERROR(MakeFolderOf(key));
  const std::string target = PathOf(key);
  const std::string unfinished = target + kUnfinished;
  Status status = Copy(path, unfinished);
  if (status.ok() && ::rename(unfinished.c_str(), target.c_str()) != 0) {
    status = FromErrno(errno, "rename to " + target);
  }
  std::error_code error;
  if (!status.ok()) fs::remove(unfinished, error);
  if (!status.ok()) return status;
  return SyncFolder(fs::path(target).parent_path().string());
}

Result<ObjectInfo> FolderObjectStore::Head(const std::string& key) {
  SHOAL_RETURN_IF_ERROR(Check(key));
  struct stat info {};
  if (::stat(PathOf(key).c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return FromErrno(errno, "stat " + PathOf(key));
    return NotFound("there is no " + address_ + "/" + key);
  }
  if (!S_ISREG(info.st_mode)) return NotFound(address_ + "/" + key + " is no file");
  return ObjectInfo{key, static_cast<std::uint64_t>(info.st_size)};
}

Result<std::string> FolderObjectStore::Get(const std::string& key, std::uint64_t offset,
                                           std::size_t size) {
  SHOAL_RETURN_IF_ERROR(Head(key).status());
  return ReadFileFrom(PathOf(key), offset, size);
}

Result<std::vector<ObjectInfo>> FolderObjectStore::List(const std::string& prefix) {
  if (stop_.stop_requested()) return Cancelled(address_ + ": told to stop");
  std::vector<ObjectInfo> found;
  std::error_code error;
  fs::recursive_directory_iterator at(folder_, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::string key = at->path().lexically_relative(folder_).string();
    if (!key.starts_with(prefix) || !IsObjectKey(key)) continue;
    if (found.size() == kObjectsListedMax) {
      return ResourceExhausted(address_ + " holds more objects than can be listed");
    }
    found.push_back({key, at->file_size(ignored)});
  }
  if (error) return FromErrno(error.value(), "list " + folder_);
  std::ranges::sort(found, {}, &ObjectInfo::key);
  return found;
}

Status FolderObjectStore::Delete(const std::string& key) {
  SHOAL_RETURN_IF_ERROR(Check(key));
  const std::string path = PathOf(key);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return Status::Ok();
  return FromErrno(errno, "delete " + path);
}

}  // namespace

std::unique_ptr<ObjectStore> NewFolderObjectStore(std::string address, std::string folder,
                                                  std::stop_token stop) {
  return std::make_unique<FolderObjectStore>(std::move(address), std::move(folder),
                                             std::move(stop));
}

}  // namespace shoal::net
