// ImageFiles: the files that hold the images of the delta store, written once from front to back.
//
// Images are large, so they are written straight from the caller's memory and read straight into
// the result. A record that is replaced is only forgotten. A file whose last record is forgotten
// waits until the caller says that nothing durable refers to it. Then it is written anew in place,
// or unlinked. Writing in place keeps its blocks and cached pages, about half the cost of a write.
// Layout of a file: docs/STORAGE.md "Delta store". Thread: one at a time; usage() any.

#ifndef SHOAL_STORAGE_DELTA_IMAGE_FILES_H_
#define SHOAL_STORAGE_DELTA_IMAGE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "common/memory/buffer.h"
#include "common/mutex.h"
#include "common/status.h"
#include "storage/delta/delta_store.h"

namespace shoal::storage {

// Where a record is.
struct ImageLocation {
  std::uint64_t file = 0;  // from 1
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // head and image
};

class ImageFiles {
 public:
  struct Usage {
    std::uint64_t files = 0, bytes = 0, written_bytes = 0;
  };

  ImageFiles(std::string folder, StoreSpace space, std::uint64_t files_max);
  ~ImageFiles();
  ImageFiles(const ImageFiles&) = delete;
  ImageFiles& operator=(const ImageFiles&) = delete;

  // Opening: the files that are there, then Adopt for every live record, then what nobody adopted
  // is unlinked.
  Status Open();
  void Adopt(const ImageLocation& location);
  void UnlinkUnknown();

  // Writes a record; what is already waiting to be unlinked makes room if the disk is full.
  Result<ImageLocation> Append(std::span<const std::byte> head, std::span<const std::byte> image);
  // Reads a record whose head has head.size() bytes. Data loss if the file is too short, not found
  // if it is not there.
  Status Read(const ImageLocation& location, std::span<std::byte> head, Buffer* image) const;
  void Forget(const ImageLocation& location);
  // A file with pinned records is not worth collecting yet: nothing names them, so they cannot be
  // copied. As many Unpins as Pins.
  void Pin(std::uint64_t file) { ++pins_[file]; }
  void Unpin(std::uint64_t file);

  // Makes everything appended durable.
  Status Sync();
  // Files without live records may be written anew or unlinked: only after what pointed at them is
  // durably gone. They are kept while all files together have at most `bytes_max` bytes.
  void ReleaseDead(std::uint64_t bytes_max);
  // Unlinks all files without live records; as above.
  void UnlinkDead();

  // A closed file without pins with the largest share of garbage, if there is garbage at all.
  std::optional<std::uint64_t> MostGarbage() const;
  // The bytes of a file from `offset` on, at most `bytes` of them.
  Result<Buffer> ReadPart(std::uint64_t file, std::uint64_t offset, std::uint64_t bytes) const;

  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t garbage_bytes() const {
    return all_bytes_ - live_bytes_ - waiting_bytes_ - free_bytes_;
  }
  std::uint64_t waiting_bytes() const { return waiting_bytes_; }
  Usage usage() const;

 private:
  struct File {
    std::uint64_t bytes = 0, live_bytes = 0;
  };

  std::string PathOf(std::uint64_t file) const;
  Status OpenCurrent();
  bool OpenFree();
  void UnlinkOldestFree();
  void CloseCurrent();
  Status WriteOut(std::span<const std::byte> head, std::span<const std::byte> image);
  void Unlink(std::map<std::uint64_t, File>::iterator at);
  void Publish();

  const std::string folder_;
  const StoreSpace space_;
  const std::uint64_t files_max_;
  std::map<std::uint64_t, File> files_;
  std::map<std::uint64_t, std::uint64_t> pins_;
  std::set<std::uint64_t> waiting_;   // closed files without a live record
  std::deque<std::uint64_t> free_;    // to be written anew, the last one first
  std::set<std::uint64_t> unsynced_;  // closed files not known to be on the disk
  std::uint64_t all_bytes_ = 0, live_bytes_ = 0, waiting_bytes_ = 0, free_bytes_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t next_file_ = 1;
  std::uint64_t current_ = 0;  // open for appending; 0: none
  int current_fd_ = -1;
  std::uint64_t current_room_ = 0;  // its size on the disk, if it is written anew
  std::uint64_t current_paid_ = 0;  // what it may grow to before free files make room

  mutable Mutex mutex_;
  Usage usage_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_IMAGE_FILES_H_
