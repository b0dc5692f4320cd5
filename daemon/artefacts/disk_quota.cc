#include "daemon/artefacts/disk_quota.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "common/log.h"
#include "storage/delta/delta_size.h"

namespace shoal::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDroppedAtOnce = 256;
// The store may be asked for by then.
constexpr std::uint64_t kDroppedBytesMax = 256 << 20;
constexpr std::uint64_t kAnyVersion = std::numeric_limits<std::uint64_t>::max();

// Runs that may go, the first of them first: those that have m only, then the oldest ones.
std::vector<RunId> OtherRuns(const std::optional<RunId>& own, const storage::DeltaStore& deltas,
                             const storage::CheckpointStore& checkpoints) {
  std::vector<RunId> saved, others;
  if (!own) return others;  // nobody knows which of them counts
  for (const storage::StoredRun& run : checkpoints.Runs()) saved.push_back(run.run);
  for (const storage::BoundaryEnd& end : deltas.Ends()) {
    const bool known = std::find(saved.begin(), saved.end(), end.run) != saved.end() ||
                       std::find(others.begin(), others.end(), end.run) != others.end();
    if (!known && end.run != *own) others.push_back(end.run);
  }
  std::reverse(saved.begin(), saved.end());
  for (const RunId run : saved) {
    if (run != *own) others.push_back(run);
  }
  return others;
}

void DropBlobs(const DiskOrder& order, storage::ContentStore* content,
               storage::CheckpointStore* checkpoints) {
  std::vector<storage::ContentHash> kept = *order.blobs;
  const auto list = checkpoints->List(*order.run);
  if (!list.ok()) return;
  for (const storage::Checkpoint& checkpoint : *list) {
    for (const storage::ArtefactRef& file : checkpoint.files) kept.push_back(file.hash);
  }
  if (const Status status = content->KeepOnly(kept); !status.ok()) {
    SHOAL_LOG(kWarning, "daemon", "disk.blobs", {"error", status.message()});
  }
}

void MakeRoom(const std::string& folder, const DiskOrder& order, storage::ContentStore* content,
              storage::DeltaStore* deltas, storage::CheckpointStore* checkpoints) {
  const auto fits = [&] { return BytesBelow(folder) <= order.bytes_max; };
  if (fits()) return;
  std::error_code error;
  fs::remove_all(folder + "/deltas.damaged", error);
  for (const RunId run : OtherRuns(order.run, *deltas, *checkpoints)) {
    if (fits()) return;
    SHOAL_LOG(kInfo, "daemon", "disk.old_run", {"dropped", run.ToHex()});
    (void)checkpoints->DropRun(run);  // there may be none
    (void)deltas->DropRun(run);       // says in the store's figures if it fails
  }
  if (order.blobs && order.run && !fits()) DropBlobs(order, content, checkpoints);
}

// Of what is above its quota a part, that of the least worth first. True: there is more. The other
// ends hear of it when they link up.
bool DropSomeM(storage::DeltaStore* deltas) {
  const storage::DeltaStoreStats before = deltas->stats();
  const auto above = [&](std::uint64_t bytes) { return bytes > before.bytes_limit; };
  if (before.bytes_limit == 0 || !above(before.bytes)) return false;
  std::vector<storage::BoundaryEnd> ends = deltas->Ends();
  std::ranges::stable_sort(
      ends, {}, [](const storage::BoundaryEnd& end) { return storage::WorthOf(end.side); });
  std::uint64_t now = before.bytes;
  for (const storage::BoundaryEnd& end : ends) {
    const auto entries = deltas->Inventory(end);  // in order of segment
    if (!entries.ok()) continue;
    for (std::size_t left = entries->size(); left > 0 && above(now);) {
      std::vector<SegmentId> last;
      for (; left > 0 && last.size() < kDroppedAtOnce; --left) {
        last.push_back((*entries)[left - 1].segment);
      }
      (void)deltas->Drop(end, last, kAnyVersion);
      now = deltas->stats().bytes;
      if (before.bytes - std::min(before.bytes, now) >= kDroppedBytesMax) return above(now);
    }
  }
  return false;
}

}  // namespace

std::uint64_t BytesBelow(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) != 0) continue;
    if (info.st_nlink > 1 && !S_ISDIR(info.st_mode) &&
        !seen.insert({info.st_dev, info.st_ino}).second) {
      continue;
    }
    bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

DiskUse KeepDiskQuota(const std::string& folder, const DiskOrder& order,
                      storage::ContentStore* content, storage::DeltaStore* deltas,
                      storage::CheckpointStore* checkpoints) {
  if (order.bytes_max > 0) MakeRoom(folder, order, content, deltas, checkpoints);
  DiskUse use;
  use.bytes = BytesBelow(folder);
  use.kept_bytes = use.bytes - std::min(use.bytes, BytesBelow(folder + "/deltas"));
  if (order.bytes_max == 0) {
    deltas->LimitBytes(0);
    return use;
  }
  const std::uint64_t room = order.bytes_max - std::min(order.bytes_max, use.kept_bytes);
  deltas->LimitBytes(std::max<std::uint64_t>(1, storage::DeltaBytesIn(order.space, room)));
  if (!order.idle || use.bytes <= order.bytes_max) return use;
  use.more_to_drop = DropSomeM(deltas);
  (void)deltas->Flush();  // says in the store's figures if it fails; files go that nothing needs
  use.bytes = BytesBelow(folder);
  return use;
}

}  // namespace shoal::daemon
