// What the RocksDB files of this folder share: status conversion, common options, opening.

#ifndef SHOAL_STORAGE_FILES_ROCKS_DATABASE_H_
#define SHOAL_STORAGE_FILES_ROCKS_DATABASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Status;
struct ColumnFamilyDescriptor;
struct DBOptions;
}  // namespace rocksdb

namespace shoal::storage {

// The failure that a RocksDB status stands for; `what` names the operation and its object.
Status FromRocks(const rocksdb::Status& status, const std::string& what);

// Options that every database here shares: made if missing, bounded files, threads and logs.
rocksdb::DBOptions CommonRocksOptions();

// An open database with its column families; closes them in the right order.
class RocksDatabase {
 public:
  // Opens `path`, made if missing. `user` ("shoald") names who else may hold the lock.
  static Result<std::unique_ptr<RocksDatabase>> Open(
      const std::string& path, const std::string& user, const rocksdb::DBOptions& options,
      const std::vector<rocksdb::ColumnFamilyDescriptor>& families);
  // Opens what is there now, to read it, without a lock: another process may have it open and go on
  // writing, which is not seen. Not found: there is nothing. Write must not be called.
  static Result<std::unique_ptr<RocksDatabase>> OpenReadOnly(const std::string& path);
  ~RocksDatabase();
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  rocksdb::DB& db() { return *db_; }
  rocksdb::ColumnFamilyHandle* family(std::size_t i) { return families_[i]; }

  // Runs `write`; if an earlier failure (disk full) stopped the database, first tries to make it
  // writable again, so that a freed disk heals without a restart.
  Status Write(const std::function<rocksdb::Status()>& write, const std::string& what);

 private:
  explicit RocksDatabase(std::unique_ptr<rocksdb::DB> db);

  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  bool stopped_ = false;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_ROCKS_DATABASE_H_
