#include "storage/delta/indexed_delta_store.h"

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/log.h"
#include "common/mutex.h"
#include "storage/delta/delta_tuning.h"

namespace shoal::storage {
namespace {

struct IndexEntry {
  std::uint64_t version = 0;
  std::uint64_t checksum = 0;
  std::uint64_t image_bytes = 0;
};

struct EndIndex {
  std::map<SegmentId, IndexEntry> entries;
  std::uint64_t checksum = 0;  // sum of RowChecksum
  std::uint64_t bytes = 0;     // of images
};

// A record that is to be. Its image is in the backend, or the record will be lost at its commit.
struct Staged {
  enum class State : std::uint8_t { kWritten, kRefused, kFailed };  // by the quota, by the disk
  State state = State::kFailed;
  IndexEntry entry;
  DeltaHeaderBytes header{};
  DeltaBackend::StagedImage image = 0;
};
using StagedStep = std::map<SegmentId, Staged>;

// Whether records of `end` go where those of `by` need room: records of other runs, and residuals
// before m. M of gradients makes room with its own commits: both ends compare what is behind them.
//
// Nothing else goes. An epoch visits every sample once, in a new order, so a record just made will
// be visited last. Refusing it gives as many hits as any policy can.
bool GivesWayTo(const BoundaryEnd& end, const BoundaryEnd& by) {
  return end.run != by.run ||
         (end.side == BoundarySide::kResidual && by.side != BoundarySide::kResidual);
}

// XXH3-64 of a record's row, docs/STORAGE.md "Delta store".
std::uint64_t RowChecksum(SegmentId segment, const IndexEntry& entry) {
  std::byte row[24];
  StoreLittle(row, segment.value);
  StoreLittle(row + 8, entry.version);
  StoreLittle(row + 16, entry.checksum);
  return Checksum64(row);
}

class IndexedDeltaStore final : public DeltaStore {
 public:
  IndexedDeltaStore(std::unique_ptr<DeltaBackend> backend, const DeltaLimits& limits,
                    std::string notice)
      : backend_(std::move(backend)), limits_(limits), opened_bytes_(limits.bytes) {
    stats_.bytes_limit = limits.bytes;
    stats_.notice = std::move(notice);
  }

  Status Load();

  Result<std::optional<DeltaRecord>> Get(const BoundaryEnd& end, SegmentId segment) override;
  Status Stage(const BoundaryEnd& end, const DeltaUpdate& update) override;
  Status CommitStaged(const BoundaryEnd& end, std::uint64_t version,
                      std::vector<SegmentId>* evicted) override;
  Status DropStaged(const BoundaryEnd& end, std::uint64_t version) override;
  Result<std::vector<DeltaInventoryEntry>> Inventory(const BoundaryEnd& end) override;
  Status DropNewerThan(RunId run, std::uint64_t version) override;
  Status Drop(const BoundaryEnd& end, std::span<const SegmentId> segments,
              std::uint64_t version_max) override;
  Status DropRun(RunId run) override;
  std::vector<BoundaryEnd> Ends() const override;
  Result<std::uint64_t> ChecksumOf(const BoundaryEnd& end) override;
  void LimitBytes(std::uint64_t bytes_max) override {
    const bool lower = bytes_max > 0 && (opened_bytes_ == 0 || bytes_max < opened_bytes_);
    const std::uint64_t limit = lower ? bytes_max : opened_bytes_;
    if (limit == 0 || limit > limits_.bytes) wanted_.clear();
    limits_.bytes = limit;
    MutexLock lock(mutex_);
    stats_.bytes_limit = limits_.bytes;
  }
  Status Flush() override { return Noted(backend_->Flush()); }
  Status Compact() override { return Noted(backend_->Compact()); }
  DeltaStoreStats stats() const override;

 private:
  // What a commit will do, decided before anything is written.
  struct Plan {
    std::vector<DeltaBackend::Put> puts;
    std::vector<std::pair<SegmentId, IndexEntry>> entries;  // of the puts
    std::vector<std::string> removals;
    std::vector<DeltaKey> displaced;  // of other runs, residuals of this one
    std::vector<DeltaBackend::StagedImage> unused;
    std::vector<SegmentId> refused, failed;  // by the quota, by the disk when they were staged
  };

  DeltaRoom Used() const;
  DeltaRoom ReserveFor(const BoundaryEnd& end) const;
  void KeepReserve(const BoundaryEnd& end, const StagedStep& step, DeltaRoom* used,
                   Plan* plan) const;
  Plan MakePlan(const BoundaryEnd& end, const StagedStep& step);
  void NoteWanted(const BoundaryEnd& end, const StagedStep& step);
  bool CouldFit(const BoundaryEnd& end, const StagedStep& step, SegmentId segment,
                std::uint64_t size) const;
  void Release(const Staged& staged);
  void Displace(const BoundaryEnd& by, std::uint64_t size, DeltaRoom* used, Plan* plan) const;
  void CarryOut(const BoundaryEnd& end, const Plan& plan);
  void LoseAll(const BoundaryEnd& end, Plan* plan);
  void Lose(const BoundaryEnd& end, std::span<const SegmentId> segments);
  template <typename Condition>
  Status Forget(const Condition& condition);
  const IndexEntry* Find(const BoundaryEnd& end, SegmentId segment) const;
  void Insert(const BoundaryEnd& end, SegmentId segment, const IndexEntry& entry);
  void Erase(const BoundaryEnd& end, SegmentId segment);
  void Note(const Status& status);
  Status Noted(Status status) {
    Note(status);
    return status;
  }
  void Count(std::uint64_t DeltaStoreStats::*counter, std::uint64_t by = 1) {
    MutexLock lock(mutex_);
    stats_.*counter += by;
  }

  const std::unique_ptr<DeltaBackend> backend_;
  DeltaLimits limits_;
  const std::uint64_t opened_bytes_;  // the quota of the options
  std::map<BoundaryEnd, EndIndex> index_;
  std::map<std::pair<BoundaryEnd, std::uint64_t>, StagedStep> staged_;  // by end and version
  std::uint64_t staged_records_ = 0;                                    // of them with an image
  // Records that vanished and whose other end does not know it yet.
  std::map<BoundaryEnd, std::set<SegmentId>> lost_;
  // What a step's m of activations took where the quota refused some of it, by end.
  std::map<BoundaryEnd, DeltaRoom> wanted_;
  mutable Mutex mutex_;
  DeltaStoreStats stats_ SHOAL_GUARDED_BY(mutex_);
};

Status IndexedDeltaStore::Load() {
  std::vector<std::string> damaged;
  SHOAL_RETURN_IF_ERROR(backend_->VisitHeaders(
      [&](std::string_view key_bytes, std::span<const std::byte> header_bytes) {
        const std::optional<DeltaKey> key = DecodeDeltaKey(key_bytes);
        const std::optional<DeltaHeader> header = DecodeDeltaHeader(key_bytes, header_bytes);
        if (!key || !header) {
          damaged.emplace_back(key_bytes);
          return;
        }
        Insert(key->end, key->segment, {header->version, header->checksum, header->image_bytes});
      }));
  if (damaged.empty()) return Status::Ok();
  SHOAL_LOG(kWarning, "storage", "delta.damaged", {"records", damaged.size()});
  Count(&DeltaStoreStats::corrupt, damaged.size());
  return backend_->Write({}, damaged);
}

// Remembers why the disk refuses, for the status. If everything is gone, forgets it, too.
void IndexedDeltaStore::Note(const Status& status) {
  {
    MutexLock lock(mutex_);
    const bool is_new = stats_.trouble != status.message();
    stats_.trouble = status.message();
    if (status.ok()) return;
    if (is_new) {
      SHOAL_LOG(kWarning, "storage", "delta.trouble", {"reason", status.message()});
    }
  }
  if (!backend_->BeginAnewIfGone()) return;
  std::uint64_t count = 0;
  for (auto& [end, of_end] : index_) {
    count += of_end.entries.size();
    for (const auto& [segment, entry] : of_end.entries) lost_[end].insert(segment);
  }
  index_.clear();
  for (auto& [end, step] : staged_) {
    for (auto& [segment, staged] : step) {
      if (staged.state == Staged::State::kWritten) staged.state = Staged::State::kFailed;
    }
  }
  staged_records_ = 0;
  SHOAL_LOG(kWarning, "storage", "delta.gone", {"records", count});
  MutexLock lock(mutex_);
  stats_.records = stats_.bytes = stats_.staged_bytes = 0;
  stats_.lost += count;
  stats_.trouble.clear();
  stats_.notice = "the folder of the delta store was deleted while in use; " +
                  std::to_string(count) + " records became first visits";
}

DeltaStoreStats IndexedDeltaStore::stats() const {
  const DeltaBackend::Usage usage = backend_->usage();
  MutexLock lock(mutex_);
  DeltaStoreStats stats = stats_;
  stats.disk_bytes = usage.disk_bytes;
  stats.disk_written_bytes = usage.disk_written_bytes;
  stats.memory_bytes = usage.memory_bytes + stats_.records * kIndexBytesPerRecord;
  return stats;
}

const IndexEntry* IndexedDeltaStore::Find(const BoundaryEnd& end, SegmentId segment) const {
  const auto of_end = index_.find(end);
  if (of_end == index_.end()) return nullptr;
  const auto found = of_end->second.entries.find(segment);
  return found == of_end->second.entries.end() ? nullptr : &found->second;
}

void IndexedDeltaStore::Insert(const BoundaryEnd& end, SegmentId segment, const IndexEntry& entry) {
  EndIndex& of_end = index_[end];
  const auto [at, is_new] = of_end.entries.try_emplace(segment);
  if (!is_new) of_end.checksum -= RowChecksum(segment, at->second);
  of_end.checksum += RowChecksum(segment, entry);
  of_end.bytes += entry.image_bytes - at->second.image_bytes;
  MutexLock lock(mutex_);
  stats_.records += is_new ? 1 : 0;
  stats_.bytes += entry.image_bytes - at->second.image_bytes;
  at->second = entry;
}

void IndexedDeltaStore::Erase(const BoundaryEnd& end, SegmentId segment) {
  const auto of_end = index_.find(end);
  if (of_end == index_.end()) return;
  const auto found = of_end->second.entries.find(segment);
  if (found == of_end->second.entries.end()) return;
  {
    MutexLock lock(mutex_);
    --stats_.records;
    stats_.bytes -= found->second.image_bytes;
  }
  of_end->second.checksum -= RowChecksum(segment, found->second);
  of_end->second.bytes -= found->second.image_bytes;
  of_end->second.entries.erase(found);
  if (of_end->second.entries.empty()) index_.erase(of_end);
}

Result<std::optional<DeltaRecord>> IndexedDeltaStore::Get(const BoundaryEnd& end,
                                                          SegmentId segment) {
  const IndexEntry* entry = Find(end, segment);
  if (entry == nullptr) {
    Count(&DeltaStoreStats::misses);
    return std::optional<DeltaRecord>();
  }
  const std::string key = EncodeDeltaKey({end, segment});
  DeltaHeaderBytes header;
  Buffer image;
  const Status status = backend_->Read(key, &header, &image);
  std::optional<DeltaRecord> record;
  if (status.ok()) record = DecodeDeltaRecord(key, header, std::move(image));
  // A whole but older image under a newer header must not pass either.
  if (record && (record->version != entry->version || record->checksum != entry->checksum)) {
    record.reset();
  }
  if (record) {
    Count(&DeltaStoreStats::hits);
    return record;
  }
  const bool unreadable = !status.ok() && status.code() != StatusCode::kNotFound &&
                          status.code() != StatusCode::kDataLoss;
  Count(&DeltaStoreStats::misses);
  Count(unreadable ? &DeltaStoreStats::lost : &DeltaStoreStats::corrupt);
  SHOAL_LOG(kWarning, "storage", unreadable ? "delta.unreadable" : "delta.corrupt",
            {"boundary", end.boundary}, {"segment", segment.value});
  // The index forgets the record even if the disk refuses the removal: it is never served again.
  Erase(end, segment);
  lost_[end].insert(segment);
  if (!status.ok()) Note(status);
  Note(backend_->Write({}, std::span(&key, 1)));
  return std::optional<DeltaRecord>();
}

DeltaRoom IndexedDeltaStore::Used() const {
  MutexLock lock(mutex_);
  return {stats_.bytes, stats_.records};
}

// What m of gradients leaves free: as much as a step's m of activations takes, once that was
// refused any.
DeltaRoom IndexedDeltaStore::ReserveFor(const BoundaryEnd& end) const {
  DeltaRoom reserve;
  if (WorthOf(end.side) != kWorthOfGradients) return reserve;
  for (const auto& [other, room] : wanted_) {
    if (other.run == end.run) reserve = reserve.Plus(room);
  }
  return reserve;
}

// Takes out records that matter less than those of `by`, until `size` bytes fit or none are left.
// Records of other runs go first, then residuals where m needs room.
void IndexedDeltaStore::Displace(const BoundaryEnd& by, std::uint64_t size, DeltaRoom* used,
                                 Plan* plan) const {
  if (limits_.bytes != 0 && size > limits_.bytes) return;
  std::size_t taken = plan->displaced.size();  // in the order of these loops
  for (const bool own_run : {false, true}) {
    for (const auto& [end, of_end] : index_) {
      if ((end.run == by.run) != own_run || !GivesWayTo(end, by)) continue;
      if (taken >= of_end.entries.size()) {
        taken -= of_end.entries.size();
        continue;
      }
      auto at = std::next(of_end.entries.begin(), static_cast<std::ptrdiff_t>(taken));
      taken = 0;
      for (; at != of_end.entries.end(); ++at) {
        if (used->LeavesRoom(limits_, size)) return;
        used->bytes -= at->second.image_bytes;
        --used->records;
        plan->displaced.push_back({end, at->first});
        plan->removals.push_back(EncodeDeltaKey({end, at->first}));
      }
    }
  }
}

// Whether a commit of what is staged and of this segment could have room for it, without giving up
// other records of this end: else it need not be written.
bool IndexedDeltaStore::CouldFit(const BoundaryEnd& end, const StagedStep& step, SegmentId segment,
                                 std::uint64_t size) const {
  DeltaRoom used = Used().Plus(ReserveFor(end));
  {
    MutexLock lock(mutex_);
    const DeltaRoom staged{stats_.staged_bytes, staged_records_};
    if (used.Plus(staged).LeavesRoom(limits_, size)) return true;
  }
  const auto replace = [&](SegmentId replaced) {
    if (const IndexEntry* old = Find(end, replaced)) used = used.Less(old->image_bytes);
  };
  replace(segment);
  for (const auto& [other, staged] : step) {
    if (other == segment) continue;
    replace(other);
    if (staged.state != Staged::State::kWritten) continue;
    used.bytes += staged.entry.image_bytes;
    ++used.records;
  }
  for (const auto& [other, of_end] : index_) {
    if (!GivesWayTo(other, end)) continue;
    used.bytes -= of_end.bytes;
    used.records -= of_end.entries.size();
  }
  return used.LeavesRoom(limits_, size);
}

Status IndexedDeltaStore::Stage(const BoundaryEnd& end, const DeltaUpdate& update) {
  const DeltaRecord& record = update.record;
  if (record.version == 0) {
    return InvalidArgument("the m of segment " + std::to_string(update.segment.value) +
                           " has version 0");
  }
  Staged& staged = staged_[{end, record.version}][update.segment];
  Release(staged);
  const std::uint64_t size = record.image.size();
  const std::string key = EncodeDeltaKey({end, update.segment});
  staged.entry = {record.version, record.checksum, size};
  staged.header =
      EncodeDeltaHeader(key, {record.version, record.checksum, size, record.tokens, record.hidden});
  staged.state = Staged::State::kRefused;
  if (!CouldFit(end, staged_.at({end, record.version}), update.segment, size)) {
    return Status::Ok();
  }
  staged.state = Staged::State::kFailed;
  const auto image = backend_->Stage(key, staged.header, record.image.bytes());
  if (!image.ok()) {
    Note(image.status());
    return Status::Ok();
  }
  staged.state = Staged::State::kWritten;
  staged.image = *image;
  ++staged_records_;
  Count(&DeltaStoreStats::staged_bytes, size);
  return Status::Ok();
}

// Forgets the image of a record that was staged, if it has one.
void IndexedDeltaStore::Release(const Staged& staged) {
  if (staged.state != Staged::State::kWritten) return;
  backend_->Unstage(staged.image);
  --staged_records_;
  Count(&DeltaStoreStats::staged_bytes, -staged.entry.image_bytes);
}

Status IndexedDeltaStore::DropStaged(const BoundaryEnd& end, std::uint64_t version) {
  const auto step = staged_.extract({end, version});
  if (step.empty()) return Status::Ok();
  for (const auto& [segment, staged] : step.mapped()) Release(staged);
  return Status::Ok();
}

// Gives up own records until what is to stay free is, the last segments first, so that both ends
// give up the same. `used` has that in it.
void IndexedDeltaStore::KeepReserve(const BoundaryEnd& end, const StagedStep& step, DeltaRoom* used,
                                    Plan* plan) const {
  const auto of_end = index_.find(end);
  if (of_end == index_.end() || ReserveFor(end).records == 0) return;
  if (!used->IsWithin(limits_)) Displace(end, 0, used, plan);
  const auto& entries = of_end->second.entries;
  for (auto at = entries.rbegin(); at != entries.rend() && !used->IsWithin(limits_); ++at) {
    if (step.contains(at->first)) continue;
    *used = used->Less(at->second.image_bytes);
    plan->refused.push_back(at->first);
    plan->removals.push_back(EncodeDeltaKey({end, at->first}));
  }
}

IndexedDeltaStore::Plan IndexedDeltaStore::MakePlan(const BoundaryEnd& end,
                                                    const StagedStep& step) {
  DeltaRoom used = Used().Plus(ReserveFor(end));
  Plan plan;
  KeepReserve(end, step, &used, &plan);
  for (const auto& [segment, staged] : step) {
    const IndexEntry* old = Find(end, segment);
    if (old != nullptr) used = used.Less(old->image_bytes);
    std::string key = EncodeDeltaKey({end, segment});
    const std::uint64_t size = staged.entry.image_bytes;
    const bool written = staged.state == Staged::State::kWritten;
    if (written && !used.LeavesRoom(limits_, size)) Displace(end, size, &used, &plan);
    if (!written || !used.LeavesRoom(limits_, size)) {
      (staged.state == Staged::State::kFailed ? plan.failed : plan.refused).push_back(segment);
      if (written) plan.unused.push_back(staged.image);
      // The old record must go: the other end already holds a newer m.
      if (old != nullptr) plan.removals.push_back(std::move(key));
      continue;
    }
    used.bytes += size;
    ++used.records;
    plan.entries.push_back({segment, staged.entry});
    plan.puts.push_back({std::move(key), staged.header, staged.image});
  }
  return plan;
}

// Remembers what a step of `end` takes, where the quota refused a part of it.
void IndexedDeltaStore::NoteWanted(const BoundaryEnd& end, const StagedStep& step) {
  if (WorthOf(end.side) <= kWorthOfGradients) return;
  DeltaRoom& wanted = wanted_[end] = {};
  for (const auto& [segment, staged] : step) wanted = wanted.Plus({staged.entry.image_bytes, 1});
}

Status IndexedDeltaStore::CommitStaged(const BoundaryEnd& end, std::uint64_t version,
                                       std::vector<SegmentId>* evicted) {
  StagedStep step;
  if (auto found = staged_.extract({end, version}); !found.empty()) {
    step = std::move(found.mapped());
  }
  Plan plan = MakePlan(end, step);
  if (!plan.refused.empty()) NoteWanted(end, step);
  for (const auto& [segment, staged] : step) {
    if (staged.state != Staged::State::kWritten) continue;
    --staged_records_;
    Count(&DeltaStoreStats::staged_bytes, -staged.entry.image_bytes);
  }
  for (const DeltaBackend::StagedImage image : plan.unused) backend_->Unstage(image);
  Status written;
  if (!plan.puts.empty() || !plan.removals.empty()) {
    written = backend_->Write(plan.puts, plan.removals);
    // Trouble while staging is over only when a whole step was written.
    if (!written.ok() || plan.failed.empty()) Note(written);
  }
  if (written.ok()) {
    CarryOut(end, plan);
  } else {
    LoseAll(end, &plan);
  }
  if (auto lost = lost_.extract(end); !lost.empty() && evicted != nullptr) {
    evicted->insert(evicted->end(), lost.mapped().begin(), lost.mapped().end());
  }
  return Status::Ok();
}

void IndexedDeltaStore::CarryOut(const BoundaryEnd& end, const Plan& plan) {
  for (const DeltaKey& key : plan.displaced) Erase(key.end, key.segment);
  std::set<SegmentId>& lost = lost_[end];
  std::uint64_t bytes = 0;
  for (const auto& [segment, entry] : plan.entries) {
    Insert(end, segment, entry);
    lost.erase(segment);
    bytes += entry.image_bytes;
  }
  Count(&DeltaStoreStats::committed_bytes, bytes);
  Lose(end, plan.refused);
  Count(&DeltaStoreStats::evicted, plan.refused.size() + plan.displaced.size());
  Lose(end, plan.failed);
  Count(&DeltaStoreStats::lost, plan.failed.size());
}

// The other end has the newer m of all of them, so neither old nor new records may stay.
void IndexedDeltaStore::LoseAll(const BoundaryEnd& end, Plan* plan) {
  for (const auto& [segment, entry] : plan->entries) plan->failed.push_back(segment);
  Lose(end, plan->failed);
  Count(&DeltaStoreStats::lost, plan->failed.size());
  Lose(end, plan->refused);
}

void IndexedDeltaStore::Lose(const BoundaryEnd& end, std::span<const SegmentId> segments) {
  for (const SegmentId segment : segments) {
    Erase(end, segment);
    lost_[end].insert(segment);
  }
}

std::vector<BoundaryEnd> IndexedDeltaStore::Ends() const {
  std::vector<BoundaryEnd> ends;
  for (const auto& [end, of_end] : index_) ends.push_back(end);
  return ends;
}

Result<std::vector<DeltaInventoryEntry>> IndexedDeltaStore::Inventory(const BoundaryEnd& end) {
  lost_.erase(end);  // the other end learns from the inventory what is not there
  std::vector<DeltaInventoryEntry> entries;
  const auto of_end = index_.find(end);
  if (of_end == index_.end()) return entries;
  entries.reserve(of_end->second.entries.size());
  for (const auto& [segment, entry] : of_end->second.entries) {
    entries.push_back({segment, entry.version, entry.checksum});
  }
  return entries;
}

// Removes all records for which `condition(end, segment, entry)` holds. They are never served
// again, even if the disk refuses.
template <typename Condition>
Status IndexedDeltaStore::Forget(const Condition& condition) {
  std::vector<DeltaKey> dropped;
  std::vector<std::string> keys;
  for (const auto& [end, of_end] : index_) {
    for (const auto& [segment, entry] : of_end.entries) {
      if (!condition(end, entry)) continue;
      dropped.push_back({end, segment});
      keys.push_back(EncodeDeltaKey({end, segment}));
    }
  }
  for (const DeltaKey& key : dropped) Erase(key.end, key.segment);
  if (keys.empty() || !Noted(backend_->Write({}, keys)).ok()) return Status::Ok();
  // A crash must not bring the abandoned history back.
  Note(backend_->Flush());
  return Status::Ok();
}

Status IndexedDeltaStore::DropNewerThan(RunId run, std::uint64_t version) {
  for (const auto& [end, step] : std::exchange(staged_, {})) {
    for (const auto& [segment, staged] : step) Release(staged);
  }
  return Forget([&](const BoundaryEnd& end, const IndexEntry& entry) {
    return end.run == run && entry.version > version;
  });
}

Status IndexedDeltaStore::DropRun(RunId run) {
  std::erase_if(wanted_, [&](const auto& wanted) { return wanted.first.run == run; });
  return Forget([&](const BoundaryEnd& end, const IndexEntry&) { return end.run == run; });
}

Status IndexedDeltaStore::Drop(const BoundaryEnd& end, std::span<const SegmentId> segments,
                               std::uint64_t version_max) {
  std::vector<std::string> keys;
  for (const SegmentId segment : segments) {
    const IndexEntry* entry = Find(end, segment);
    if (entry == nullptr || entry->version > version_max) continue;
    keys.push_back(EncodeDeltaKey({end, segment}));
    Erase(end, segment);
  }
  if (!keys.empty()) Note(backend_->Write({}, keys));
  return Status::Ok();
}

Result<std::uint64_t> IndexedDeltaStore::ChecksumOf(const BoundaryEnd& end) {
  const auto of_end = index_.find(end);
  return of_end == index_.end() ? 0 : of_end->second.checksum;
}

}  // namespace

Result<std::unique_ptr<DeltaStore>> NewIndexedDeltaStore(std::unique_ptr<DeltaBackend> backend,
                                                         const DeltaLimits& limits,
                                                         std::string notice) {
  auto store = std::make_unique<IndexedDeltaStore>(std::move(backend), limits, std::move(notice));
  SHOAL_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<DeltaStore>(std::move(store));
}

}  // namespace shoal::storage
