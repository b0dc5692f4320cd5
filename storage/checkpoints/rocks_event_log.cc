#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <utility>

#include "common/bytes.h"
#include "storage/checkpoints/event_log.h"
#include "storage/files/rocks_database.h"

namespace shoal::storage {
namespace {

constexpr char kFormat = 1;  // first byte of every value
constexpr std::size_t kKeyBytes = 8;

std::string EncodeValue(std::string_view event) {
  std::string value(1, kFormat);
  value += event;
  return value;
}

std::string EncodeNumber(std::uint64_t number) {
  std::string key(kKeyBytes, '\0');
  StoreBig(reinterpret_cast<std::byte*>(key.data()), number);
  return key;
}

using Visit = std::function<Status(std::uint64_t number, std::string_view event)>;

Result<std::uint64_t> NumberOf(const std::string& path, const rocksdb::Slice& key) {
  if (key.size() != kKeyBytes) return DataLoss(path + " is no event log; give another folder");
  return LoadBig<std::uint64_t>(reinterpret_cast<const std::byte*>(key.data()));
}

Status ReplayAll(const std::string& path, rocksdb::DB& db, const Visit& visit) {
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(rocksdb::ReadOptions()));
  std::uint64_t expected = 1;
  for (at->SeekToFirst(); at->Valid(); at->Next(), ++expected) {
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t number, NumberOf(path, at->key()));
    const rocksdb::Slice value = at->value();
    if (number != expected || value.empty() || value[0] != kFormat) {
      return DataLoss("the event log in " + path + " is damaged at event " +
                      std::to_string(expected) +
                      " (missing or of an unknown format); restore the folder from a copy");
    }
    SHOAL_RETURN_IF_ERROR(visit(number, std::string_view(value.data() + 1, value.size() - 1)));
  }
  return FromRocks(at->status(), "read the event log in " + path);
}

class RocksEventLog final : public EventLog {
 public:
  RocksEventLog(std::string path, std::unique_ptr<RocksDatabase> database)
      : path_(std::move(path)), database_(std::move(database)) {
    write_options_.sync = true;
  }

  Status FindEnd() {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_->db().NewIterator(rocksdb::ReadOptions()));
    at->SeekToLast();
    if (at->Valid()) {
      SHOAL_ASSIGN_OR_RETURN(last_, NumberOf(path_, at->key()));
    }
    return FromRocks(at->status(), "read the event log in " + path_);
  }

  Result<std::uint64_t> Append(std::string_view event) override {
    const std::string key = EncodeNumber(last_ + 1);
    const std::string value = EncodeValue(event);
    SHOAL_RETURN_IF_ERROR(
        database_->Write([&] { return database_->db().Put(write_options_, key, value); },
                         "append to the event log in " + path_));
    return ++last_;
  }

  Status Replay(const Visit& visit) override { return ReplayAll(path_, database_->db(), visit); }

 private:
  const std::string path_;
  const std::unique_ptr<RocksDatabase> database_;
  rocksdb::WriteOptions write_options_;
  std::uint64_t last_ = 0;
};

}  // namespace

Result<std::unique_ptr<EventLog>> OpenRocksEventLog(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(
      auto database,
      RocksDatabase::Open(path, "shoal-scheduler", CommonRocksOptions(),
                          {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}}));
  auto log = std::make_unique<RocksEventLog>(path, std::move(database));
  SHOAL_RETURN_IF_ERROR(log->FindEnd());
  return std::unique_ptr<EventLog>(std::move(log));
}

Status WriteRocksEventLog(const std::string& path, std::span<const std::string> events) {
  SHOAL_ASSIGN_OR_RETURN(
      const auto database,
      RocksDatabase::Open(path, "shoal-scheduler", CommonRocksOptions(),
                          {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}}));
  const std::unique_ptr<rocksdb::Iterator> at(database->db().NewIterator(rocksdb::ReadOptions()));
  at->SeekToFirst();
  if (at->Valid()) return AlreadyExists("there is an event log in " + path);
  SHOAL_RETURN_IF_ERROR(FromRocks(at->status(), "read the event log in " + path));
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < events.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(FromRocks(batch.Put(EncodeNumber(i + 1), EncodeValue(events[i])),
                                    "write the event log in " + path));
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  return database->Write([&] { return database->db().Write(options, &batch); },
                         "write the event log in " + path);
}

Status ReadRocksEventLog(const std::string& path, const Visit& visit) {
  SHOAL_ASSIGN_OR_RETURN(const auto database, RocksDatabase::OpenReadOnly(path));
  return ReplayAll(path, database->db(), visit);
}

}  // namespace shoal::storage
