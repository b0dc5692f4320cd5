// RunStore: the scheduler's disk: event log and content-addressed artefacts in the run's folder.
// Peers upload what the run wants, and it is verified here. Thread: store (one at a time), but for
// bytes().

#ifndef SHOAL_SCHEDULER_SERVER_RUN_STORE_H_
#define SHOAL_SCHEDULER_SERVER_RUN_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"
#include "storage/checkpoints/event_log.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

class RunStore {
 public:
  // <directory>/events and <directory>/artefacts, made if missing. The event log is locked: a
  // second scheduler in the same folder gets a clear error.
  static Result<std::unique_ptr<RunStore>> Open(const std::string& directory);
  RunStore(std::unique_ptr<storage::EventLog> log, std::unique_ptr<storage::ContentStore> content);
  // Moves event log, artefacts and origin of what the folder served before to
  // <directory>/set-aside-<n>, the lowest free n; its path, or "" if there was nothing. Nothing is
  // deleted.
  static Result<std::string> SetAside(const std::string& directory);

  storage::EventLog& log() { return *log_; }
  storage::ContentStore& content() { return *content_; }

  // What to do about artefacts that are damaged or gone. Thread of each: store.
  struct Repair {
    // Makes it again from model and data; not found: it is not made of these.
    std::function<Status(const storage::ContentHash& hash)> make_again;
    // A peer asked for it, and it could not be made again; `hash` is 32 raw bytes.
    std::function<void(const std::string& hash)> on_lost;
    // One that was wanted is here, whole.
    std::function<void(const std::string& hash)> on_here;
    // What a peer uploads could not be written.
    std::function<void(const std::string& hash, const Status& why)> on_not_kept = {};
  };
  void SetRepair(Repair repair) { repair_ = std::move(repair); }
  // From now on peers may upload these, too; on_here comes for each.
  void Want(const std::vector<control::v1::ArtefactRef>& files);
  // Raw hashes of those that are damaged or gone and cannot be made again. Hashes all of them.
  std::vector<std::string> FindLost(const std::vector<control::v1::ArtefactRef>& files);

  // What net::ControlServerHandlers ask for; `hash` is 32 raw bytes. What is read is whole: each
  // blob is hashed at its first use and when its file has changed.
  Result<std::string> Read(const std::string& hash, std::uint64_t offset, std::size_t size);
  Result<std::uint64_t> UploadOffset(const std::string& hash, std::uint64_t size);
  Result<std::uint64_t> Write(const std::string& hash, std::uint64_t size, std::uint64_t offset,
                              const std::string& data);

  // Deletes all blobs but these and what is pinned; of others none is wanted any more.
  Status Prune(const std::vector<control::v1::ArtefactRef>& kept);
  // Keeps these blobs, here or not, until Unpin, as often as they are pinned.
  void Pin(const std::vector<storage::ContentHash>& hashes);
  void Unpin(const std::vector<storage::ContentHash>& hashes);

  // Of all blobs, as of the last change. Thread: any.
  std::uint64_t bytes() const { return bytes_; }

 private:
  Status CheckUpload(const std::string& hash, std::uint64_t size, storage::ContentHash* out) const;
  // Whether the blob is here, by now.
  bool HasOrMakes(const storage::ContentHash& hash);
  void Here(const storage::ContentHash& hash);
  Status Kept(const storage::ContentHash& hash, Status status) const;

  std::unique_ptr<storage::EventLog> log_;
  std::unique_ptr<storage::ContentStore> content_;
  std::map<storage::ContentHash, std::size_t> pinned_;  // how often
  // Of artefacts that the run needs: those that are not here, and those that are. Sizes.
  std::map<storage::ContentHash, std::uint64_t> wanted_, kept_;
  Repair repair_;
  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_RUN_STORE_H_
