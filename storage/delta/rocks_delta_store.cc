// The delta store on disk: RocksDB holds the headers and where the images are, ImageFiles hold the
// images.
//
// RocksDB's own blob files gave half the speed in random reads (docs/BENCHMARKS.md "Store"). They
// copy every value three times. In Debian's build they compute its CRC in software, for values that
// have a checksum of their own.

#include <errno.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"
#include "storage/delta/delta_tuning.h"
#include "storage/delta/image_files.h"
#include "storage/delta/indexed_delta_store.h"
#include "storage/files/rocks_database.h"

namespace shoal::storage {
namespace {

std::span<const std::byte> ToBytes(const rocksdb::Slice& slice) {
  return std::as_bytes(std::span(slice.data(), slice.size()));
}

rocksdb::ColumnFamilyOptions HeaderOptions(const std::shared_ptr<rocksdb::Cache>& cache,
                                           const DeltaMemory& memory) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.write_buffer_size = memory.write_buffer;
  options.max_write_buffer_number = kWriteBuffersMax;
  options.level0_file_num_compaction_trigger = 8;
  return options;
}

// The two parts of a store, opened together.
class Disk {
 public:
  Disk(const DeltaStoreOptions& options, std::unique_ptr<RocksDatabase> opened,
       std::shared_ptr<rocksdb::Statistics> statistics, std::shared_ptr<rocksdb::Cache> cache)
      : files(options.path + "/images", options.space,
              DivideDeltaMemory(options.memory_bytes).image_files / kBytesPerImageFile),
        headers(std::move(opened)),
        statistics_(std::move(statistics)),
        cache_(std::move(cache)) {}

  static Result<std::shared_ptr<Disk>> Open(const DeltaStoreOptions& options) {
    const DeltaMemory memory = DivideDeltaMemory(options.memory_bytes);
    const auto cache = rocksdb::NewLRUCache(memory.block_cache);
    const auto statistics = rocksdb::CreateDBStatistics();
    statistics->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);
    rocksdb::DBOptions db_options = CommonRocksOptions();
    db_options.statistics = statistics;
    SHOAL_ASSIGN_OR_RETURN(
        auto database,
        RocksDatabase::Open(options.path + "/headers", "shoald", db_options,
                            {{rocksdb::kDefaultColumnFamilyName, HeaderOptions(cache, memory)}}));
    auto disk = std::make_shared<Disk>(options, std::move(database), statistics, cache);
    SHOAL_RETURN_IF_ERROR(disk->files.Open());
    return disk;
  }

  DeltaBackend::Usage usage() const {
    using Properties = rocksdb::DB::Properties;
    const auto property = [this](const std::string& name) {
      std::uint64_t value = 0;
      headers->db().GetIntProperty(name, &value);
      return value;
    };
    const ImageFiles::Usage images = files.usage();
    DeltaBackend::Usage usage;
    usage.disk_bytes = images.bytes + property(Properties::kTotalSstFilesSize);
    usage.disk_written_bytes = images.written_bytes +
                               statistics_->getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
                               statistics_->getTickerCount(rocksdb::COMPACT_WRITE_BYTES);
    usage.memory_bytes = property(Properties::kSizeAllMemTables) +
                         property(Properties::kEstimateTableReadersMem) + cache_->GetUsage() +
                         images.files * kBytesPerImageFile;
    return usage;
  }

  ImageFiles files;
  const std::unique_ptr<RocksDatabase> headers;

 private:
  const std::shared_ptr<rocksdb::Statistics> statistics_;
  const std::shared_ptr<rocksdb::Cache> cache_;
};

class RocksDeltaBackend final : public DeltaBackend {
 public:
  RocksDeltaBackend(const DeltaStoreOptions& options, std::shared_ptr<Disk> disk)
      : options_(options), path_(options.path), disk_(std::move(disk)) {
    // Lost tails are found by their versions and cost one full resend (AQ-SGD state rules), so the
    // log, which would double the bytes written, is off.
    write_options_.disableWAL = true;
  }

  Status VisitHeaders(
      const std::function<void(std::string_view, std::span<const std::byte>)>& visit) override;
  Status Read(const std::string& key, DeltaHeaderBytes* header, Buffer* image) override;
  Result<StagedImage> Stage(const std::string& key, const DeltaHeaderBytes& header,
                            std::span<const std::byte> image) override;
  void Unstage(StagedImage image) override;
  Status Write(std::span<const Put> puts, std::span<const std::string> removals) override;
  Status Flush() override;
  Status Compact() override;
  bool BeginAnewIfGone() override;
  Usage usage() const override;

 private:
  struct Entry {
    std::string key;
    DeltaHeaderBytes header;
    ImageLocation location;
  };

  Result<std::shared_ptr<Disk>> OpenDisk();
  Status Find(Disk* disk, const std::string& key, DeltaEntry* entry, ImageLocation* location);
  ImageLocation TakeStaged(Disk* disk, StagedImage image);
  Status WriteHeaders(Disk* disk, std::span<const Entry> entries,
                      std::span<const std::string> removals);
  Status FlushDisk(Disk* disk);
  Status CollectFile(Disk* disk, std::uint64_t file, std::uint64_t* copied);
  Status CollectSome(Disk* disk, std::uint64_t bytes_max);

  const DeltaStoreOptions options_;
  const std::string path_;
  rocksdb::WriteOptions write_options_;
  // Replaced by the store thread alone; usage() takes a copy.
  mutable Mutex mutex_;
  std::shared_ptr<Disk> disk_ SHOAL_GUARDED_BY(mutex_);
  std::map<StagedImage, ImageLocation> staged_;  // live and pinned, but no header names them
  StagedImage last_staged_ = 0;
};

// Opens it anew after it was gone.
Result<std::shared_ptr<Disk>> RocksDeltaBackend::OpenDisk() {
  MutexLock lock(mutex_);
  if (disk_ == nullptr) {
    SHOAL_ASSIGN_OR_RETURN(disk_, Disk::Open(options_));
  }
  return disk_;
}

Status RocksDeltaBackend::VisitHeaders(
    const std::function<void(std::string_view, std::span<const std::byte>)>& visit) {
  SHOAL_ASSIGN_OR_RETURN(const auto disk, OpenDisk());
  const std::unique_ptr<rocksdb::Iterator> at(
      disk->headers->db().NewIterator(rocksdb::ReadOptions()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const auto value = ToBytes(at->value());
    const std::string_view key(at->key().data(), at->key().size());
    if (const auto entry = DecodeDeltaEntry(value)) {
      const auto header = DecodeDeltaHeader(key, entry->header);
      if (header) {
        disk->files.Adopt({entry->file, entry->offset, kImageHeadBytes + header->image_bytes});
      }
    }
    visit(key, value);
  }
  SHOAL_RETURN_IF_ERROR(FromRocks(at->status(), "read the headers in " + path_));
  disk->files.UnlinkUnknown();
  return Status::Ok();
}

Status RocksDeltaBackend::Find(Disk* disk, const std::string& key, DeltaEntry* entry,
                               ImageLocation* location) {
  std::string value;
  const rocksdb::Status status = disk->headers->db().Get(rocksdb::ReadOptions(), key, &value);
  if (!status.ok()) return FromRocks(status, "read a header in " + path_);
  const auto decoded = DecodeDeltaEntry(std::as_bytes(std::span(value)));
  const auto header = decoded ? DecodeDeltaHeader(key, decoded->header) : std::nullopt;
  if (!header) return DataLoss("a header in " + path_ + " is damaged");
  *entry = *decoded;
  *location = {decoded->file, decoded->offset, kImageHeadBytes + header->image_bytes};
  return Status::Ok();
}

Status RocksDeltaBackend::Read(const std::string& key, DeltaHeaderBytes* header, Buffer* image) {
  SHOAL_ASSIGN_OR_RETURN(const auto disk, OpenDisk());
  DeltaEntry entry;
  ImageLocation location;
  SHOAL_RETURN_IF_ERROR(Find(disk.get(), key, &entry, &location));
  ImageHeadBytes head;
  SHOAL_RETURN_IF_ERROR(disk->files.Read(location, head, image));
  if (head != EncodeImageHead(key, entry.header)) {
    return DataLoss("an image in " + path_ + " is not the one its header names");
  }
  *header = entry.header;
  return Status::Ok();
}

Result<DeltaBackend::StagedImage> RocksDeltaBackend::Stage(const std::string& key,
                                                           const DeltaHeaderBytes& header,
                                                           std::span<const std::byte> image) {
  SHOAL_ASSIGN_OR_RETURN(const auto disk, OpenDisk());
  SHOAL_ASSIGN_OR_RETURN(const ImageLocation location,
                         disk->files.Append(EncodeImageHead(key, header), image));
  disk->files.Pin(location.file);
  staged_[++last_staged_] = location;
  return last_staged_;
}

ImageLocation RocksDeltaBackend::TakeStaged(Disk* disk, StagedImage image) {
  const auto staged = staged_.extract(image);
  SHOAL_CHECK(!staged.empty());
  disk->files.Unpin(staged.mapped().file);
  return staged.mapped();
}

void RocksDeltaBackend::Unstage(StagedImage image) {
  const auto disk = OpenDisk();  // it is open: what is staged goes with it
  SHOAL_CHECK(disk.ok());
  (*disk)->files.Forget(TakeStaged(disk->get(), image));
}

Status RocksDeltaBackend::WriteHeaders(Disk* disk, std::span<const Entry> entries,
                                       std::span<const std::string> removals) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const Entry& entry : entries) {
    if (!status.ok()) break;
    status = batch.Put(
        entry.key, EncodeDeltaEntry({entry.header, entry.location.file, entry.location.offset}));
  }
  for (const std::string& key : removals) {
    if (status.ok()) status = batch.Delete(key);
  }
  if (!status.ok()) return FromRocks(status, "prepare records for " + path_);
  return disk->headers->Write([&] { return disk->headers->db().Write(write_options_, &batch); },
                              "write headers to " + path_);
}

Status RocksDeltaBackend::Write(std::span<const Put> puts, std::span<const std::string> removals) {
  SHOAL_ASSIGN_OR_RETURN(const auto disk, OpenDisk());
  std::vector<ImageLocation> outdated;
  const auto replace = [&](const std::string& key) {
    DeltaEntry entry;
    ImageLocation location;
    if (Find(disk.get(), key, &entry, &location).ok()) outdated.push_back(location);
  };
  std::vector<Entry> entries;
  std::uint64_t bytes = 0;
  for (const Put& put : puts) {
    replace(put.key);
    entries.push_back({put.key, put.header, TakeStaged(disk.get(), put.image)});
    bytes += entries.back().location.bytes;
  }
  const std::size_t replaced = outdated.size();
  for (const std::string& key : removals) replace(key);
  for (std::size_t i = replaced; i < outdated.size(); ++i) bytes += outdated[i].bytes;
  const Status status = WriteHeaders(disk.get(), entries, removals);
  if (!status.ok()) {
    for (const Entry& entry : entries) disk->files.Forget(entry.location);
    return status;
  }
  for (const ImageLocation& location : outdated) disk->files.Forget(location);
  SHOAL_RETURN_IF_ERROR(CollectSome(disk.get(), 2 * bytes));
  if (disk->files.waiting_bytes() > WaitingBytesMax(disk->files.live_bytes())) {
    return FlushDisk(disk.get());
  }
  return Status::Ok();
}

Status RocksDeltaBackend::Flush() {
  SHOAL_ASSIGN_OR_RETURN(const auto disk, OpenDisk());
  return FlushDisk(disk.get());
}

// Images first, so that a durable header has a durable image; then nothing durable names what the
// dead files held.
Status RocksDeltaBackend::FlushDisk(Disk* disk) {
  SHOAL_RETURN_IF_ERROR(disk->files.Sync());
  SHOAL_RETURN_IF_ERROR(disk->headers->Write(
      [&] { return disk->headers->db().Flush(rocksdb::FlushOptions()); }, "flush " + path_));
  const double live = static_cast<double>(disk->files.live_bytes());
  disk->files.ReleaseDead(static_cast<std::uint64_t>((1 + KeptShareMax(options_.space)) * live));
  return Status::Ok();
}

// Copies the live records of a file to the end and forgets the file.
Status RocksDeltaBackend::CollectFile(Disk* disk, std::uint64_t file, std::uint64_t* copied) {
  for (std::uint64_t offset = 0;;) {
    SHOAL_ASSIGN_OR_RETURN(const Buffer head_bytes,
                           disk->files.ReadPart(file, offset, kImageHeadBytes));
    const auto head = DecodeImageHead(head_bytes.bytes());
    if (!head) return Status::Ok();  // the end, or damage: then what follows is a miss when read
    const ImageLocation here{file, offset, kImageHeadBytes + head->header.image_bytes};
    offset += here.bytes;
    DeltaEntry entry;
    ImageLocation current;
    if (!Find(disk, head->key, &entry, &current).ok() || current.file != file ||
        current.offset != here.offset) {
      continue;
    }
    ImageHeadBytes ignored;
    Buffer image;
    SHOAL_RETURN_IF_ERROR(disk->files.Read(here, ignored, &image));
    SHOAL_ASSIGN_OR_RETURN(
        const ImageLocation copy,
        disk->files.Append(EncodeImageHead(head->key, entry.header), image.bytes()));
    const Entry moved{head->key, entry.header, copy};
    const Status status = WriteHeaders(disk, std::span(&moved, 1), {});
    disk->files.Forget(status.ok() ? here : copy);
    SHOAL_RETURN_IF_ERROR(status);
    *copied += here.bytes;
  }
}

// As long as there is more garbage than epochs alone leave.
Status RocksDeltaBackend::CollectSome(Disk* disk, std::uint64_t bytes_max) {
  const double share = GarbageShareMax(options_.space);
  std::uint64_t copied = 0;
  while (copied<bytes_max&& static_cast<double>(disk->files.garbage_bytes())> share *
         static_cast<double>(disk->files.live_bytes())) {
    const std::optional<std::uint64_t> file = disk->files.MostGarbage();
    if (!file) break;
    const std::uint64_t live_before = disk->files.garbage_bytes();
    SHOAL_RETURN_IF_ERROR(CollectFile(disk, *file, &copied));
    if (disk->files.garbage_bytes() >= live_before) break;  // a damaged file
  }
  return Status::Ok();
}

Status RocksDeltaBackend::Compact() {
  SHOAL_ASSIGN_OR_RETURN(const auto disk, OpenDisk());
  std::uint64_t copied = 0;
  while (const std::optional<std::uint64_t> file = disk->files.MostGarbage()) {
    const std::uint64_t before = disk->files.garbage_bytes();
    SHOAL_RETURN_IF_ERROR(CollectFile(disk.get(), *file, &copied));
    if (disk->files.garbage_bytes() >= before) break;
    if (disk->files.waiting_bytes() > WaitingBytesMax(disk->files.live_bytes())) {
      SHOAL_RETURN_IF_ERROR(FlushDisk(disk.get()));
    }
  }
  SHOAL_RETURN_IF_ERROR(FlushDisk(disk.get()));
  disk->files.UnlinkDead();
  return disk->headers->Write(
      [&] {
        return disk->headers->db().CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr);
      },
      "compact " + path_);
}

bool RocksDeltaBackend::BeginAnewIfGone() {
  if (::access((path_ + "/headers/CURRENT").c_str(), F_OK) == 0 || errno != ENOENT) return false;
  MutexLock lock(mutex_);
  const bool was_open = disk_ != nullptr;
  disk_.reset();
  staged_.clear();
  return was_open;
}

DeltaBackend::Usage RocksDeltaBackend::usage() const {
  std::shared_ptr<Disk> disk;
  {
    MutexLock lock(mutex_);
    disk = disk_;
  }
  return disk == nullptr ? Usage() : disk->usage();
}

}  // namespace

Result<std::unique_ptr<DeltaStore>> OpenRocksDeltaStore(const DeltaStoreOptions& options) {
  const DeltaLimits limits{options.bytes_max,
                           DivideDeltaMemory(options.memory_bytes).index / kIndexBytesPerRecord,
                           std::max(options.memory_bytes, kDeltaMemoryMin)};
  const auto open = [&](std::string notice) -> Result<std::unique_ptr<DeltaStore>> {
    SHOAL_ASSIGN_OR_RETURN(auto disk, Disk::Open(options));
    return NewIndexedDeltaStore(std::make_unique<RocksDeltaBackend>(options, std::move(disk)),
                                limits, std::move(notice));
  };
  auto store = open({});
  if (store.ok() || store.status().code() != StatusCode::kDataLoss) return store;
  const std::string aside = options.path + ".damaged";
  SHOAL_LOG(kWarning, "storage", "delta.set_aside", {"folder", aside},
            {"reason", store.status().message()});
  std::error_code error;
  std::filesystem::remove_all(aside, error);
  std::filesystem::rename(options.path, aside, error);
  if (error) return store;
  return open("the files of the delta store were damaged and lie in " + aside +
              " now; its samples became first visits");
}

Result<std::unique_ptr<DeltaStore>> OpenRocksDeltaStoreOrNone(const DeltaStoreOptions& options) {
  auto store = OpenRocksDeltaStore(options);
  if (store.status().code() != StatusCode::kResourceExhausted) return store;
  SHOAL_LOG(kWarning, "storage", "delta.none", {"reason", store.status().message()});
  constexpr std::uint64_t kNothing = 1;  // 0 would be no limit
  return NewMemoryDeltaStore(kNothing,
                             "the disk was full at the start, so no m is kept; free some "
                             "space and start shoald again");
}

}  // namespace shoal::storage
