#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <utility>

#include "storage/indexed_delta_store.h"
#include "storage/rocks_database.h"

namespace shoal::storage {
namespace {

// Column families by position; the names are on disk and never change.
enum Family : std::size_t { kDefault = 0, kHeaders = 1, kImages = 2 };
constexpr const char* kHeadersName = "headers";
constexpr const char* kImagesName = "images";

constexpr std::uint64_t kBlobBytesMin = 4096;

rocksdb::Slice ToSlice(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> ToBytes(const rocksdb::Slice& slice) {
  return std::as_bytes(std::span(slice.data(), slice.size()));
}

class RocksDeltaBackend final : public DeltaBackend {
 public:
  RocksDeltaBackend(std::string path, std::unique_ptr<RocksDatabase> database)
      : path_(std::move(path)), database_(std::move(database)) {
    // Lost tails are found by their versions and cost one full resend (AQ-SGD state rules), so the
    // log, which would double the bytes written, is off.
    write_options_.disableWAL = true;
  }

  Status VisitHeaders(
      const std::function<void(std::string_view, std::span<const std::byte>)>& visit) override {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_->db().NewIterator(rocksdb::ReadOptions(), database_->family(kHeaders)));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      visit(std::string_view(at->key().data(), at->key().size()), ToBytes(at->value()));
    }
    return FromRocks(at->status(), "read the headers in " + path_);
  }

  Status Read(const std::string& key,
              const std::function<void(std::span<const std::byte>)>& visit) override {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        database_->db().Get(rocksdb::ReadOptions(), database_->family(kImages), key, &value);
    if (!status.ok()) return FromRocks(status, "read a record in " + path_);
    visit(ToBytes(value));
    return Status::Ok();
  }

  Status Write(std::span<const Put> puts, std::span<const std::string> removals) override {
    rocksdb::WriteBatch batch;
    rocksdb::Status status;
    for (const Put& put : puts) {
      const rocksdb::Slice key(put.key);
      const rocksdb::Slice value[] = {ToSlice(put.header), ToSlice(put.image)};
      if (status.ok()) status = batch.Put(database_->family(kHeaders), key, value[0]);
      if (status.ok()) {
        status = batch.Put(database_->family(kImages), rocksdb::SliceParts(&key, 1),
                           rocksdb::SliceParts(value, 2));
      }
    }
    for (const std::string& key : removals) {
      if (status.ok()) status = batch.Delete(database_->family(kHeaders), key);
      if (status.ok()) status = batch.Delete(database_->family(kImages), key);
    }
    if (!status.ok()) return FromRocks(status, "prepare records for " + path_);
    return database_->Write([&] { return database_->db().Write(write_options_, &batch); },
                            "write records to " + path_);
  }

  Status Flush() override {
    return database_->Write(
        [&] {
          return database_->db().Flush(rocksdb::FlushOptions(),
                                       {database_->family(kHeaders), database_->family(kImages)});
        },
        "flush " + path_);
  }

 private:
  const std::string path_;
  const std::unique_ptr<RocksDatabase> database_;
  rocksdb::WriteOptions write_options_;
};

rocksdb::ColumnFamilyOptions HeaderOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.write_buffer_size = 8ull << 20;
  return options;
}

rocksdb::ColumnFamilyOptions ImageOptions(const std::shared_ptr<rocksdb::Cache>& cache,
                                          std::uint64_t cache_bytes) {
  rocksdb::ColumnFamilyOptions options = HeaderOptions(cache);
  options.write_buffer_size = std::clamp<std::uint64_t>(cache_bytes / 4, 1ull << 20, 64ull << 20);
  options.max_write_buffer_number = 3;
  options.enable_blob_files = true;
  options.min_blob_size = kBlobBytesMin;
  options.blob_file_size = 256ull << 20;
  options.blob_compression_type = rocksdb::kNoCompression;
  // Every epoch rewrites every record, so most blob files become garbage as a whole.
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 0.25;
  options.blob_garbage_collection_force_threshold = 0.5;
  return options;
}

}  // namespace

Result<std::unique_ptr<DeltaStore>> OpenRocksDeltaStore(const DeltaStoreOptions& options) {
  const auto cache = rocksdb::NewLRUCache(options.cache_bytes);
  rocksdb::DBOptions db_options = CommonRocksOptions();
  // Header and image of a record must reach the disk together or not at all.
  db_options.atomic_flush = true;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, HeaderOptions(cache)},
      {kHeadersName, HeaderOptions(cache)},
      {kImagesName, ImageOptions(cache, options.cache_bytes)}};
  SHOAL_ASSIGN_OR_RETURN(auto database,
                         RocksDatabase::Open(options.path, "shoald", db_options, families));
  return NewIndexedDeltaStore(
      std::make_unique<RocksDeltaBackend>(options.path, std::move(database)), options.bytes_max);
}

}  // namespace shoal::storage
