#include "storage/indexed_delta_store.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/log.h"
#include "common/mutex.h"

namespace shoal::storage {
namespace {

struct IndexEntry {
  std::uint64_t version = 0;
  std::uint64_t checksum = 0;
  std::uint64_t image_bytes = 0;
};

using PlaceIndex = std::map<SampleId, IndexEntry>;

class IndexedDeltaStore final : public DeltaStore {
 public:
  IndexedDeltaStore(std::unique_ptr<DeltaBackend> backend, std::uint64_t bytes_max)
      : backend_(std::move(backend)) {
    stats_.bytes_limit = bytes_max;
  }

  Status Load();

  Result<std::optional<DeltaRecord>> Get(const DeltaPlace& place, SampleId sample) override;
  Status Commit(const DeltaPlace& place, std::span<const DeltaUpdate> updates,
                std::vector<SampleId>* evicted) override;
  Result<std::vector<DeltaInventoryEntry>> Inventory(const DeltaPlace& place) override;
  Status DropNewerThan(RunId run, std::uint64_t version) override;
  Status Drop(const DeltaPlace& place, std::span<const SampleId> samples) override;
  Result<std::uint64_t> PlaceChecksum(const DeltaPlace& place) override;
  Status Flush() override { return backend_->Flush(); }
  DeltaStoreStats stats() const override {
    MutexLock lock(mutex_);
    return stats_;
  }

 private:
  // What a Commit will do, decided before anything is written.
  struct Plan {
    std::vector<DeltaBackend::Put> puts;
    std::vector<std::pair<SampleId, IndexEntry>> entries;  // of the puts
    std::vector<std::string> removals;
    std::vector<SampleId> refused;
  };

  Plan MakePlan(const DeltaPlace& place, const std::map<SampleId, const DeltaRecord*>& wanted);
  const IndexEntry* Find(const DeltaPlace& place, SampleId sample) const;
  void Insert(const DeltaPlace& place, SampleId sample, const IndexEntry& entry);
  void Erase(const DeltaPlace& place, SampleId sample);
  void Count(std::uint64_t DeltaStoreStats::*counter) {
    MutexLock lock(mutex_);
    ++(stats_.*counter);
  }

  const std::unique_ptr<DeltaBackend> backend_;
  std::map<DeltaPlace, PlaceIndex> index_;
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
        Insert(key->place, key->sample, {header->version, header->checksum, header->image_bytes});
      }));
  if (damaged.empty()) return Status::Ok();
  SHOAL_LOG(kWarning, "storage", "delta.damaged", {"records", damaged.size()});
  for (std::size_t i = 0; i < damaged.size(); ++i) Count(&DeltaStoreStats::corrupt);
  return backend_->Write({}, damaged);
}

const IndexEntry* IndexedDeltaStore::Find(const DeltaPlace& place, SampleId sample) const {
  const auto of_place = index_.find(place);
  if (of_place == index_.end()) return nullptr;
  const auto found = of_place->second.find(sample);
  return found == of_place->second.end() ? nullptr : &found->second;
}

void IndexedDeltaStore::Insert(const DeltaPlace& place, SampleId sample, const IndexEntry& entry) {
  const auto [at, is_new] = index_[place].try_emplace(sample);
  MutexLock lock(mutex_);
  stats_.records += is_new ? 1 : 0;
  stats_.bytes += entry.image_bytes - at->second.image_bytes;
  at->second = entry;
}

void IndexedDeltaStore::Erase(const DeltaPlace& place, SampleId sample) {
  const auto of_place = index_.find(place);
  if (of_place == index_.end()) return;
  const auto found = of_place->second.find(sample);
  if (found == of_place->second.end()) return;
  {
    MutexLock lock(mutex_);
    --stats_.records;
    stats_.bytes -= found->second.image_bytes;
  }
  of_place->second.erase(found);
  if (of_place->second.empty()) index_.erase(of_place);
}

Result<std::optional<DeltaRecord>> IndexedDeltaStore::Get(const DeltaPlace& place,
                                                          SampleId sample) {
  const IndexEntry* entry = Find(place, sample);
  if (entry == nullptr) {
    Count(&DeltaStoreStats::misses);
    return std::optional<DeltaRecord>();
  }
  const std::string key = EncodeDeltaKey({place, sample});
  std::optional<DeltaRecord> record;
  const Status status = backend_->Read(key, [&](std::span<const std::byte> value) {
    record = DecodeDeltaValue(key, value);
    // A whole but older image under a newer header must not pass either.
    if (record && (record->version != entry->version || record->checksum != entry->checksum)) {
      record.reset();
    }
  });
  if (!status.ok() && status.code() != StatusCode::kNotFound &&
      status.code() != StatusCode::kDataLoss) {
    return status;
  }
  if (record) {
    Count(&DeltaStoreStats::hits);
    return record;
  }
  Count(&DeltaStoreStats::misses);
  Count(&DeltaStoreStats::corrupt);
  SHOAL_LOG(kWarning, "storage", "delta.corrupt", {"boundary", place.boundary},
            {"sample", sample.value});
  // The index forgets the record even if the disk refuses the removal: it is never served again.
  Erase(place, sample);
  SHOAL_RETURN_IF_ERROR(backend_->Write({}, std::span(&key, 1)));
  return std::optional<DeltaRecord>();
}

IndexedDeltaStore::Plan IndexedDeltaStore::MakePlan(
    const DeltaPlace& place, const std::map<SampleId, const DeltaRecord*>& wanted) {
  std::uint64_t bytes = 0;
  std::uint64_t limit = 0;
  {
    MutexLock lock(mutex_);
    bytes = stats_.bytes;
    limit = stats_.bytes_limit;
  }
  Plan plan;
  for (const auto& [sample, record] : wanted) {
    const IndexEntry* old = Find(place, sample);
    bytes -= old == nullptr ? 0 : old->image_bytes;
    std::string key = EncodeDeltaKey({place, sample});
    const std::uint64_t size = record->image.size();
    if (limit != 0 && (size > limit || bytes > limit - size)) {
      plan.refused.push_back(sample);
      // The old record must go: the other end already holds a newer m.
      if (old != nullptr) plan.removals.push_back(std::move(key));
      continue;
    }
    bytes += size;
    plan.entries.push_back({sample, {record->version, record->checksum, size}});
    const DeltaHeaderBytes header = EncodeDeltaHeader(
        key, {record->version, record->checksum, size, record->tokens, record->hidden});
    plan.puts.push_back({std::move(key), header, record->image.bytes()});
  }
  return plan;
}

Status IndexedDeltaStore::Commit(const DeltaPlace& place, std::span<const DeltaUpdate> updates,
                                 std::vector<SampleId>* evicted) {
  std::map<SampleId, const DeltaRecord*> wanted;
  for (const DeltaUpdate& update : updates) {
    if (update.record.version == 0 ||
        update.record.checksum != Checksum64(update.record.image.bytes())) {
      return InvalidArgument("the m of sample " + std::to_string(update.sample.value) +
                             " has version 0 or a checksum that is not its image's");
    }
    wanted[update.sample] = &update.record;  // of two records for a sample the later one counts
  }
  const Plan plan = MakePlan(place, wanted);
  SHOAL_RETURN_IF_ERROR(backend_->Write(plan.puts, plan.removals));
  for (const auto& [sample, entry] : plan.entries) Insert(place, sample, entry);
  for (const SampleId sample : plan.refused) {
    Erase(place, sample);
    Count(&DeltaStoreStats::evicted);
  }
  if (evicted != nullptr) {
    evicted->insert(evicted->end(), plan.refused.begin(), plan.refused.end());
  }
  return Status::Ok();
}

Result<std::vector<DeltaInventoryEntry>> IndexedDeltaStore::Inventory(const DeltaPlace& place) {
  std::vector<DeltaInventoryEntry> entries;
  const auto of_place = index_.find(place);
  if (of_place == index_.end()) return entries;
  entries.reserve(of_place->second.size());
  for (const auto& [sample, entry] : of_place->second) {
    entries.push_back({sample, entry.version, entry.checksum});
  }
  return entries;
}

Status IndexedDeltaStore::DropNewerThan(RunId run, std::uint64_t version) {
  std::vector<std::pair<DeltaPlace, SampleId>> dropped;
  std::vector<std::string> keys;
  for (const auto& [place, samples] : index_) {
    if (place.run != run) continue;
    for (const auto& [sample, entry] : samples) {
      if (entry.version <= version) continue;
      dropped.push_back({place, sample});
      keys.push_back(EncodeDeltaKey({place, sample}));
    }
  }
  if (keys.empty()) return Status::Ok();
  SHOAL_RETURN_IF_ERROR(backend_->Write({}, keys));
  for (const auto& [place, sample] : dropped) Erase(place, sample);
  // A crash must not bring the abandoned history back.
  return backend_->Flush();
}

Status IndexedDeltaStore::Drop(const DeltaPlace& place, std::span<const SampleId> samples) {
  std::vector<std::string> keys;
  for (const SampleId sample : samples) {
    if (Find(place, sample) != nullptr) keys.push_back(EncodeDeltaKey({place, sample}));
  }
  if (keys.empty()) return Status::Ok();
  SHOAL_RETURN_IF_ERROR(backend_->Write({}, keys));
  for (const SampleId sample : samples) Erase(place, sample);
  return Status::Ok();
}

Result<std::uint64_t> IndexedDeltaStore::PlaceChecksum(const DeltaPlace& place) {
  constexpr std::size_t kRowBytes = 24;
  std::vector<std::byte> rows;
  if (const auto of_place = index_.find(place); of_place != index_.end()) {
    rows.resize(of_place->second.size() * kRowBytes);
    std::byte* to = rows.data();
    for (const auto& [sample, entry] : of_place->second) {
      StoreLittle(to, sample.value);
      StoreLittle(to + 8, entry.version);
      StoreLittle(to + 16, entry.checksum);
      to += kRowBytes;
    }
  }
  return Checksum64(rows);
}

}  // namespace

Result<std::unique_ptr<DeltaStore>> NewIndexedDeltaStore(std::unique_ptr<DeltaBackend> backend,
                                                         std::uint64_t bytes_max) {
  auto store = std::make_unique<IndexedDeltaStore>(std::move(backend), bytes_max);
  SHOAL_RETURN_IF_ERROR(store->Load());
  return std::unique_ptr<DeltaStore>(std::move(store));
}

}  // namespace shoal::storage
