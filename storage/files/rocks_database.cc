#include "storage/files/rocks_database.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/regular_file.h"

namespace shoal::storage {
namespace {

// RocksDB has no code of its own for a lock that is held.
bool IsLockHeld(const rocksdb::Status& status) {
  if (!status.IsIOError()) return false;
  const std::string text = status.ToString();
  return text.find("lock file") != std::string::npos || text.find("lock hold") != std::string::npos;
}

// RocksDB's text, cut to one line.
std::string OneLine(const rocksdb::Status& status) {
  std::string text = status.ToString();
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

// RocksDB's own log file aborts the process (an assertion in its file writer, on in Debian's build)
// when the disk is full; its lines go to ours instead.
class LogForwarder final : public rocksdb::Logger {
 public:
  LogForwarder() : rocksdb::Logger(rocksdb::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    if (!LogEnabled(LogLevel::kDebug)) return;
    char line[512];
    std::vsnprintf(line, sizeof(line), format, arguments);
    for (char* c = line; *c != '\0'; ++c) {
      if (*c == '\n' || *c == '\r') *c = ' ';
    }
    SHOAL_LOG(kDebug, "storage", "rocksdb", {"line", line});
  }
};

// Without this a thread of RocksDB's polls the disk after an error, and Resume is refused
// meanwhile.
class ManualRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* automatic) override {
    *automatic = false;
  }
};

// Whoever writes may delete a file between our reading of the manifest and our opening of it.
constexpr int kReadOnlyTries = 3;

}  // namespace

Status FromRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return Status::Ok();
  const std::string text = what + ": " + OneLine(status);
  if (status.IsNoSpace() || text.find("No space left") != std::string::npos) {
    return ResourceExhausted(what + ": no space left on the disk; free some and try again");
  }
  if (status.IsNotFound()) return NotFound(text);
  if (status.IsCorruption()) return DataLoss(text);
  if (status.IsInvalidArgument()) return InvalidArgument(text);
  if (status.IsNotSupported()) return Unimplemented(text);
  if (status.IsMemoryLimit()) return ResourceExhausted(text);
  return Unavailable(text);
}

rocksdb::DBOptions CommonRocksOptions() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.info_log = std::make_shared<LogForwarder>();
  options.listeners.push_back(std::make_shared<ManualRecovery>());
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_bgerror_resume_count = 0;
  return options;
}

RocksDatabase::RocksDatabase(std::unique_ptr<rocksdb::DB> db) : db_(std::move(db)) {}

Result<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(
    const std::string& path, const std::string& user, const rocksdb::DBOptions& options,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(path));
  SHOAL_RETURN_IF_ERROR(CheckFolderOfFiles(path));
  rocksdb::DB* raw = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status status = rocksdb::DB::Open(options, path, families, &handles, &raw);
  if (IsLockHeld(status)) {
    return Unavailable("another " + user + " uses " + path +
                       "; stop it, or give this one another folder");
  }
  // A file that the manifest names and that is not there is damage, too.
  if (status.IsCorruption() || status.IsPathNotFound()) {
    return DataLoss("open " + path +
                    " (damaged; move the folder away to start afresh): " + OneLine(status));
  }
  if (!status.ok()) return FromRocks(status, "open " + path);
  std::unique_ptr<RocksDatabase> database(new RocksDatabase(std::unique_ptr<rocksdb::DB>(raw)));
  database->families_ = std::move(handles);
  return database;
}

Result<std::unique_ptr<RocksDatabase>> RocksDatabase::OpenReadOnly(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path + "/CURRENT", error)) {
    return NotFound("there is no database in " + path);
  }
  SHOAL_RETURN_IF_ERROR(CheckFolderOfFiles(path));
  rocksdb::Options options{CommonRocksOptions(), rocksdb::ColumnFamilyOptions()};
  options.create_if_missing = false;
  options.max_open_files = -1;  // all are opened at once, and stay readable when they are deleted
  rocksdb::DB* raw = nullptr;
  rocksdb::Status status;
  for (int attempt = 0; attempt < kReadOnlyTries; ++attempt) {
    status = rocksdb::DB::OpenForReadOnly(options, path, &raw);
    if (status.ok()) {
      return std::unique_ptr<RocksDatabase>(new RocksDatabase(std::unique_ptr<rocksdb::DB>(raw)));
    }
  }
  return FromRocks(status, "read " + path);
}

RocksDatabase::~RocksDatabase() {
  for (rocksdb::ColumnFamilyHandle* family : families_) {
    db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
  db_->Close().PermitUncheckedError();
}

Status RocksDatabase::Write(const std::function<rocksdb::Status()>& write,
                            const std::string& what) {
  if (stopped_) {
    const rocksdb::Status resumed = db_->Resume();
    if (!resumed.ok()) return FromRocks(resumed, what);
    stopped_ = false;
  }
  const rocksdb::Status status = write();
  stopped_ = !status.ok();
  return FromRocks(status, what);
}

}  // namespace shoal::storage
