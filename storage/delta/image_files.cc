#include "storage/delta/image_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/regular_file.h"
#include "storage/delta/delta_tuning.h"
#include "storage/files/descriptor.h"

namespace shoal::storage {
namespace {

constexpr std::string_view kSuffix = ".images";

std::optional<std::uint64_t> NumberOf(const std::string& name) {
  if (name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  const char* const end = name.data() + name.size() - kSuffix.size();
  std::uint64_t number = 0;
  const auto [at, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || at != end || number == 0) return std::nullopt;
  return number;
}

constexpr std::uint64_t kPageBytes = 4096;

// All parts one after the other, in as many calls as it takes; `call` is preadv or pwritev.
template <std::size_t kParts, typename Call>
Status Transfer(const iovec (&parts)[kParts], std::uint64_t offset, const std::string& what,
                const Call& call) {
  iovec left[kParts];
  std::copy(std::begin(parts), std::end(parts), left);
  std::size_t first = 0;
  while (first < kParts) {
    if (left[first].iov_len == 0) {
      ++first;
      continue;
    }
    const ssize_t done = call(&left[first], static_cast<int>(kParts - first), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return FromErrno(errno, what);
    if (done == 0) return DataLoss(what + ": it is too short");
    offset += static_cast<std::uint64_t>(done);
    std::size_t rest = static_cast<std::size_t>(done);
    while (first < kParts && rest >= left[first].iov_len) rest -= left[first++].iov_len;
    if (first == kParts) break;
    left[first].iov_base = static_cast<std::byte*>(left[first].iov_base) + rest;
    left[first].iov_len -= rest;
  }
  return Status::Ok();
}

// Never waits for whoever is at the other end of a pipe.
Status SyncPath(const std::string& path, int flags) {
  const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0 || ::fsync(file.fd()) != 0) return FromErrno(errno, "sync " + path);
  return Status::Ok();
}

}  // namespace

ImageFiles::ImageFiles(std::string folder, StoreSpace space, std::uint64_t files_max)
    : folder_(std::move(folder)), space_(space), files_max_(files_max) {}

ImageFiles::~ImageFiles() {
  if (current_fd_ >= 0) ::close(current_fd_);
}

std::string ImageFiles::PathOf(std::uint64_t file) const {
  char name[32];
  std::snprintf(name, sizeof(name), "/%010" PRIu64 "%s", file, kSuffix.data());
  return folder_ + name;
}

Status ImageFiles::Open() {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder_));
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    const std::optional<std::uint64_t> number = NumberOf(at->path().filename().string());
    if (!number) continue;
    SHOAL_RETURN_IF_ERROR(CheckRegularFile(at->path().string()));
    const std::uint64_t bytes = at->file_size(error);
    if (error) break;
    files_[*number].bytes = bytes;
    all_bytes_ += bytes;
    next_file_ = std::max(next_file_, *number + 1);
  }
  if (error) return FromErrno(error.value(), "read the folder " + folder_);
  Publish();
  return Status::Ok();
}

void ImageFiles::Adopt(const ImageLocation& location) {
  const auto found = files_.find(location.file);
  // A record that cannot be there is found out when it is read.
  if (found == files_.end() || location.offset > found->second.bytes ||
      location.bytes > found->second.bytes - location.offset) {
    return;
  }
  found->second.live_bytes += location.bytes;
  live_bytes_ += location.bytes;
}

void ImageFiles::UnlinkUnknown() {
  for (auto at = files_.begin(); at != files_.end();) {
    const auto here = at++;
    if (here->second.live_bytes == 0) Unlink(here);
  }
  Publish();
}

void ImageFiles::Unlink(std::map<std::uint64_t, File>::iterator at) {
  ::unlink(PathOf(at->first).c_str());
  all_bytes_ -= at->second.bytes;
  unsynced_.erase(at->first);
  files_.erase(at);
}

// The file that became free last, if there is one: of all of them it is the likeliest to be cached.
bool ImageFiles::OpenFree() {
  while (!free_.empty()) {
    const auto file = files_.find(free_.back());
    free_.pop_back();
    free_bytes_ -= file->second.bytes;
    const Result<int> opened = OpenRegularFile(PathOf(file->first), O_WRONLY);
    if (!opened.ok()) {
      Unlink(file);
      continue;
    }
    current_fd_ = *opened;
    current_ = file->first;
    current_room_ = current_paid_ = file->second.bytes;
    all_bytes_ -= std::exchange(file->second.bytes, 0);
    return true;
  }
  return false;
}

Status ImageFiles::OpenCurrent() {
  if (OpenFree()) return Status::Ok();
  const std::string path = PathOf(next_file_);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return FromErrno(errno, "create " + path);
  current_fd_ = fd;
  current_ = next_file_++;
  current_paid_ = UINT64_MAX;
  files_[current_] = {};
  return Status::Ok();
}

void ImageFiles::CloseCurrent() {
  if (current_ == 0) return;
  const File& file = files_[current_];
  // What is left of its former life takes space. If it stays, it only counts as garbage after a
  // reopening.
  if (current_room_ > file.bytes && ::ftruncate(current_fd_, static_cast<off_t>(file.bytes)) != 0) {
    SHOAL_LOG(kDebug, "storage", "delta.not_truncated", {"file", current_});
  }
  current_room_ = 0;
  // The disk begins to write now, so that a later sync has little to wait for.
  ::sync_file_range(current_fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
  ::close(current_fd_);
  current_fd_ = -1;
  unsynced_.insert(current_);
  if (file.live_bytes == 0) {
    waiting_.insert(current_);
    waiting_bytes_ += file.bytes;
  }
  current_ = 0;
}

Status ImageFiles::WriteOut(std::span<const std::byte> head, std::span<const std::byte> image) {
  if (current_ == 0) SHOAL_RETURN_IF_ERROR(OpenCurrent());
  const std::uint64_t offset = files_[current_].bytes;
  const std::uint64_t end = offset + head.size() + image.size();
  // Whole pages: the kernel would have to read what is to be kept of a page of a former life.
  static constexpr std::byte kZeros[kPageBytes] = {};
  const std::uint64_t padding =
      current_room_ > end ? (kPageBytes - end % kPageBytes) % kPageBytes : 0;
  const iovec parts[3] = {{const_cast<std::byte*>(head.data()), head.size()},
                          {const_cast<std::byte*>(image.data()), image.size()},
                          {const_cast<std::byte*>(kZeros), padding}};
  Status status = Transfer(parts, offset, "write " + PathOf(current_),
                           [this](const iovec* at, int count, std::uint64_t from) {
                             return ::pwritev(current_fd_, at, count, static_cast<off_t>(from));
                           });
  // What was written of a record that is not whole would only take space.
  if (!status.ok() && ::ftruncate(current_fd_, static_cast<off_t>(offset)) != 0) CloseCurrent();
  if (!status.ok()) current_room_ = 0;
  return status;
}

Result<ImageLocation> ImageFiles::Append(std::span<const std::byte> head,
                                         std::span<const std::byte> image) {
  Status status = WriteOut(head, image);
  if (status.code() == StatusCode::kResourceExhausted && !(waiting_.empty() && free_.empty())) {
    UnlinkDead();
    status = WriteOut(head, image);
  }
  SHOAL_RETURN_IF_ERROR(status);
  File& file = files_[current_];
  const ImageLocation location{current_, file.bytes, head.size() + image.size()};
  file.bytes += location.bytes;
  file.live_bytes += location.bytes;
  all_bytes_ += location.bytes;
  live_bytes_ += location.bytes;
  written_bytes_ += location.bytes;
  while (file.bytes > current_paid_ && !free_.empty()) {
    current_paid_ += files_.at(free_.front()).bytes;
    UnlinkOldestFree();
  }
  if (file.bytes >= ImageFileBytes(space_, location.bytes, live_bytes_, files_max_)) CloseCurrent();
  Publish();
  return location;
}

Status ImageFiles::Read(const ImageLocation& location, std::span<std::byte> head,
                        Buffer* image) const {
  const std::string path = PathOf(location.file);
  struct stat status {};
  SHOAL_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path, &status));
  const Descriptor file(opened);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (location.bytes < head.size() || location.offset > size ||
      location.bytes > size - location.offset) {
    return DataLoss("read " + path + ": it is too short");
  }
  *image = Buffer(location.bytes - head.size());
  const iovec parts[2] = {{head.data(), head.size()}, {image->data(), image->size()}};
  return Transfer(parts, location.offset, "read " + path,
                  [&file](const iovec* at, int count, std::uint64_t from) {
                    return ::preadv(file.fd(), at, count, static_cast<off_t>(from));
                  });
}

void ImageFiles::Forget(const ImageLocation& location) {
  const auto found = files_.find(location.file);
  if (found == files_.end() || found->second.live_bytes < location.bytes) return;
  found->second.live_bytes -= location.bytes;
  live_bytes_ -= location.bytes;
  if (found->second.live_bytes == 0 && location.file != current_) {
    waiting_.insert(location.file);
    waiting_bytes_ += found->second.bytes;
  }
}

void ImageFiles::Unpin(std::uint64_t file) {
  const auto found = pins_.find(file);
  SHOAL_CHECK(found != pins_.end());
  if (--found->second == 0) pins_.erase(found);
}

Status ImageFiles::Sync() {
  if (current_ != 0 && ::fdatasync(current_fd_) != 0) {
    return FromErrno(errno, "sync " + PathOf(current_));
  }
  while (!unsynced_.empty()) {
    const std::uint64_t file = *unsynced_.begin();
    // The bytes of a dead file will never be read.
    if (!waiting_.contains(file)) SHOAL_RETURN_IF_ERROR(SyncPath(PathOf(file), O_RDONLY));
    unsynced_.erase(unsynced_.begin());
  }
  return SyncPath(folder_, O_RDONLY | O_DIRECTORY);
}

void ImageFiles::ReleaseDead(std::uint64_t bytes_max) {
  free_.insert(free_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  free_bytes_ += std::exchange(waiting_bytes_, 0);
  while (!free_.empty() && all_bytes_ > bytes_max) UnlinkOldestFree();
  Publish();
}

// Of all free files it is the least likely to be cached.
void ImageFiles::UnlinkOldestFree() {
  const auto file = files_.find(free_.front());
  free_.pop_front();
  free_bytes_ -= file->second.bytes;
  Unlink(file);
}

void ImageFiles::UnlinkDead() {
  for (const std::uint64_t file : std::exchange(waiting_, {})) Unlink(files_.find(file));
  for (const std::uint64_t file : std::exchange(free_, {})) Unlink(files_.find(file));
  waiting_bytes_ = free_bytes_ = 0;
  Publish();
}

std::optional<std::uint64_t> ImageFiles::MostGarbage() const {
  std::optional<std::uint64_t> most;
  double share = 0;
  for (const auto& [number, file] : files_) {
    if (number == current_ || file.live_bytes == 0 || file.live_bytes == file.bytes) continue;
    if (pins_.contains(number)) continue;
    const double here =
        1.0 - static_cast<double>(file.live_bytes) / static_cast<double>(file.bytes);
    if (here <= share) continue;
    share = here;
    most = number;
  }
  return most;
}

Result<Buffer> ImageFiles::ReadPart(std::uint64_t file, std::uint64_t offset,
                                    std::uint64_t bytes) const {
  const auto found = files_.find(file);
  if (found == files_.end() || offset >= found->second.bytes) return Buffer();
  Buffer part;
  SHOAL_RETURN_IF_ERROR(
      Read({file, offset, std::min(bytes, found->second.bytes - offset)}, {}, &part));
  return part;
}

void ImageFiles::Publish() {
  MutexLock lock(mutex_);
  const std::uint64_t current_bytes = current_ == 0 ? 0 : files_.at(current_).bytes;
  const std::uint64_t left = std::max(current_room_, current_bytes) - current_bytes;
  usage_ = {files_.size(), all_bytes_ + left, written_bytes_};
}

ImageFiles::Usage ImageFiles::usage() const {
  MutexLock lock(mutex_);
  return usage_;
}

}  // namespace shoal::storage
