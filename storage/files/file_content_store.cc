#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/open_file.h"
#include "common/regular_file.h"
#include "storage/files/atomic_file.h"
#include "storage/files/content_hash.h"
#include "storage/files/content_store.h"
#include "storage/files/descriptor.h"

namespace shoal::storage {
namespace {

namespace fs = std::filesystem;

std::uint64_t SizeOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<std::uint64_t>(info.st_size);
}

// What a file is known by as long as nobody writes to it. Not its time of status change, which a
// new hard link moves.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_s = 0, modified_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

FileStamp StampOf(const struct stat& info) {
  return {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec,
          info.st_mtim.tv_nsec};
}

// Nothing: no regular file.
std::optional<FileStamp> StampAt(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return StampOf(info);
}

// Regular files of a folder; a folder that cannot be read counts as empty.
std::vector<fs::path> FilesIn(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error)) files.push_back(at->path());
  }
  return files;
}

class FileContentStore final : public ContentStore {
 public:
  explicit FileContentStore(const std::string& path)
      : blobs_(path + "/blobs"), partials_(path + "/partial") {}

  Status Prepare();

  bool Has(const ContentHash& hash) const override;
  Result<std::string> PathOf(const ContentHash& hash) const override {
    if (Has(hash)) return BlobPath(hash);
    return NotFound("no blob " + hash.ToHex() + " in " + blobs_ + "; fetch it first");
  }
  Result<ContentHash> Put(std::span<const std::byte> bytes) override;
  Result<ContentHash> PutFile(const std::string& path) override;
  Result<std::string> Read(const ContentHash& hash, std::uint64_t offset,
                           std::size_t size) const override;
  std::uint64_t PartialSize(const ContentHash& hash) const override {
    return SizeOf(PartialPath(hash));
  }
  Status AppendPartial(const ContentHash& hash, std::uint64_t offset,
                       std::span<const std::byte> bytes) override;
  Status FinishPartial(const ContentHash& hash, std::uint64_t expected_size) override;
  Status Remove(const ContentHash& hash) override;
  Status KeepOnly(std::span<const ContentHash> hashes) override;
  std::vector<ContentHash> Hashes() const override;
  std::uint64_t bytes() const override;

 private:
  Status MakeFolders();
  std::string BlobPath(const ContentHash& hash) const { return blobs_ + "/" + hash.ToHex(); }
  std::string PartialPath(const ContentHash& hash) const { return partials_ + "/" + hash.ToHex(); }
  Status Link(int from, const std::string& source, const std::string& target);
  Status Copy(int from, const std::string& source, const std::string& target);
  // Whether the file of this blob is the one that was found undamaged.
  bool Verified(const ContentHash& hash, const std::optional<FileStamp>& stamp) const;
  void SetVerified(const ContentHash& hash) const;

  const std::string blobs_;
  const std::string partials_;
  mutable std::map<ContentHash, FileStamp> verified_;
};

// Called before each use: both folders may be deleted while the program runs.
Status FileContentStore::MakeFolders() {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(blobs_));
  return MakeDirectories(partials_);
}

bool FileContentStore::Verified(const ContentHash& hash,
                                const std::optional<FileStamp>& stamp) const {
  const auto known = verified_.find(hash);
  return stamp && known != verified_.end() && known->second == *stamp;
}

void FileContentStore::SetVerified(const ContentHash& hash) const {
  if (const auto stamp = StampAt(BlobPath(hash))) verified_[hash] = *stamp;
}

bool FileContentStore::Has(const ContentHash& hash) const {
  const std::string path = BlobPath(hash);
  // Taken before the bytes are read: bytes written meanwhile are read again.
  const std::optional<FileStamp> stamp = StampAt(path);
  if (Verified(hash, stamp)) return true;
  verified_.erase(hash);
  if (!stamp) return false;
  const Result<FileHash> found = HashFile(path);
  if (found.ok() && found->hash == hash) {
    verified_[hash] = *stamp;
    return true;
  }
  SHOAL_LOG(kWarning, "storage", "content.damaged", {"deleted", path},
            {"reason", found.ok() ? "its bytes are not what its name says"
                                  : std::string(found.status().message())});
  std::error_code error;
  fs::remove(path, error);
  return false;
}

Status FileContentStore::Prepare() {
  SHOAL_RETURN_IF_ERROR(MakeFolders());
  // Temporaries of a process that was killed have names that are no hash.
  for (const fs::path& file : FilesIn(blobs_)) {
    std::error_code error;
    if (!ContentHash::FromHex(file.filename().string()).ok()) fs::remove(file, error);
  }
  return Status::Ok();
}

Result<ContentHash> FileContentStore::Put(std::span<const std::byte> bytes) {
  const ContentHash hash = HashOf(bytes);
  if (Verified(hash, StampAt(BlobPath(hash)))) return hash;
  SHOAL_RETURN_IF_ERROR(MakeFolders());
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(
      BlobPath(hash), std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  SetVerified(hash);
  return hash;
}

Result<ContentHash> FileContentStore::PutFile(const std::string& path) {
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, &info));
  const Descriptor file(opened);
  SHOAL_ASSIGN_OR_RETURN(const FileHash hashed, HashDescriptor(file.fd(), path));
  const std::string target = BlobPath(hashed.hash);
  const std::optional<FileStamp> there = StampAt(target);
  if (Verified(hashed.hash, there)) return hashed.hash;
  const FileStamp stamp = StampOf(info);
  if (there != stamp) {
    if (::fsync(file.fd()) != 0) return FromErrno(errno, "fsync " + path);
    SHOAL_RETURN_IF_ERROR(MakeFolders());
    SHOAL_RETURN_IF_ERROR(Link(file.fd(), path, target));
    SHOAL_RETURN_IF_ERROR(SyncFolder(blobs_));
  }
  // A link has the stamp from before the bytes were hashed, a copy is hashed at its first use.
  if (StampAt(target) == stamp) verified_[hashed.hash] = stamp;
  return hashed.hash;
}

// Replaces what lies there: a blob that was not verified, where the bytes at hand are.
Status FileContentStore::Link(int from, const std::string& source, const std::string& target) {
  // Links what was hashed, whatever lies under the name by now.
  const std::string opened = "/proc/self/fd/" + std::to_string(from);
  const std::string temporary = target + ".tmp-link";
  std::error_code error;
  fs::remove(temporary, error);
  if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return Copy(from, source, target);
  }
  Status status;
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    status = FromErrno(errno, "rename to " + target);
  }
  fs::remove(temporary, error);  // also there if both names were the same file's
  return status;
}

Status FileContentStore::Copy(int from, const std::string& source, const std::string& target) {
  SHOAL_ASSIGN_OR_RETURN(auto copy, AtomicFile::Create(target));
  std::vector<std::byte> piece(1 << 20);
  off_t offset = 0;
  for (;;) {
    const ssize_t got = ::pread(from, piece.data(), piece.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, "read " + source);
    if (got == 0) return copy->Commit();
    SHOAL_RETURN_IF_ERROR(copy->Append(std::span(piece).first(static_cast<std::size_t>(got))));
    offset += got;
  }
}

Result<std::string> FileContentStore::Read(const ContentHash& hash, std::uint64_t offset,
                                           std::size_t size) const {
  SHOAL_ASSIGN_OR_RETURN(const std::string path, PathOf(hash));
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, &info));
  const Descriptor file(opened);
  const auto whole = static_cast<std::uint64_t>(info.st_size);
  if (offset > whole) {
    return OutOfRange("offset " + std::to_string(offset) + " lies behind the " +
                      std::to_string(whole) + " bytes of blob " + hash.ToHex());
  }
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(size, whole - offset)), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.fd(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, "read " + path);
    if (got == 0) return DataLoss(path + " was shortened while it was read");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

Status FileContentStore::AppendPartial(const ContentHash& hash, std::uint64_t offset,
                                       std::span<const std::byte> bytes) {
  const std::string path = PartialPath(hash);
  const std::uint64_t size = PartialSize(hash);
  if (offset != size) {
    return OutOfRange("bytes at " + std::to_string(offset) + " do not continue the " +
                      std::to_string(size) + " bytes already fetched of " + hash.ToHex());
  }
  if (offset == 0) SHOAL_RETURN_IF_ERROR(MakeFolders());
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, O_WRONLY | O_CREAT | O_APPEND));
  const Descriptor file(opened);
  const Status status = WriteFully(file.fd(), bytes, path);
  // After a full disk the partial ends where the caller believes it ends.
  if (!status.ok() && ::ftruncate(file.fd(), static_cast<off_t>(size)) != 0) {
    return FromErrno(errno, "truncate " + path);
  }
  return status;
}

Status FileContentStore::FinishPartial(const ContentHash& hash, std::uint64_t expected_size) {
  const std::string path = PartialPath(hash);
  std::error_code error;
  if (Has(hash)) {
    fs::remove(path, error);
    return Status::Ok();
  }
  const std::uint64_t size = PartialSize(hash);
  if (size < expected_size) {
    return FailedPrecondition("only " + std::to_string(size) + " of " +
                              std::to_string(expected_size) + " bytes of " + hash.ToHex() +
                              " were fetched; fetch the rest");
  }
  SHOAL_RETURN_IF_ERROR(MakeFolders());
  // An empty blob may have been begun by nobody.
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, O_RDONLY | O_CREAT));
  const Descriptor file(opened);
  SHOAL_ASSIGN_OR_RETURN(const FileHash hashed, HashDescriptor(file.fd(), path));
  if (hashed.size != expected_size || hashed.hash != hash) {
    fs::remove(path, error);
    return DataLoss("the " + std::to_string(hashed.size) + " bytes fetched are not blob " +
                    hash.ToHex() + " of " + std::to_string(expected_size) +
                    " bytes; they were deleted, fetch it again");
  }
  if (::fsync(file.fd()) != 0) return FromErrno(errno, "fsync " + path);
  if (::rename(path.c_str(), BlobPath(hash).c_str()) != 0) {
    return FromErrno(errno, "rename " + path);
  }
  SetVerified(hash);
  return SyncFolder(blobs_);
}

Status FileContentStore::Remove(const ContentHash& hash) {
  verified_.erase(hash);
  for (const std::string& path : {BlobPath(hash), PartialPath(hash)}) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return FromErrno(errno, "delete " + path);
  }
  return Status::Ok();
}

Status FileContentStore::KeepOnly(std::span<const ContentHash> hashes) {
  std::set<std::string> kept;
  for (const ContentHash& hash : hashes) kept.insert(hash.ToHex());
  std::erase_if(verified_, [&](const auto& entry) { return !kept.contains(entry.first.ToHex()); });
  for (const std::string& folder : {blobs_, partials_}) {
    for (const fs::path& file : FilesIn(folder)) {
      if (kept.count(file.filename().string()) != 0) continue;
      if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
        return FromErrno(errno, "delete " + file.string());
      }
    }
  }
  return Status::Ok();
}

std::vector<ContentHash> FileContentStore::Hashes() const {
  std::vector<ContentHash> hashes;
  for (const fs::path& file : FilesIn(blobs_)) {
    const auto hash = ContentHash::FromHex(file.filename().string());
    if (hash.ok()) hashes.push_back(*hash);
  }
  return hashes;
}

std::uint64_t FileContentStore::bytes() const {
  std::uint64_t total = 0;
  for (const std::string& folder : {blobs_, partials_}) {
    for (const fs::path& file : FilesIn(folder)) total += SizeOf(file.string());
  }
  return total;
}

}  // namespace

Result<std::unique_ptr<ContentStore>> OpenFileContentStore(const std::string& path) {
  auto store = std::make_unique<FileContentStore>(path);
  SHOAL_RETURN_IF_ERROR(store->Prepare());
  return std::unique_ptr<ContentStore>(std::move(store));
}

}  // namespace shoal::storage
