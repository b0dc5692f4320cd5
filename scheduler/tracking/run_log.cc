#include "scheduler/tracking/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "common/file.h"
#include "common/open_file.h"
#include "common/regular_file.h"
#include "scheduler/tracking/event_file.h"

namespace shoal::scheduler {
namespace {

// The name that TensorBoard looks for. Files are read in the order of their names.
std::string EventFileName(std::uint64_t opened_ms) {
  char host[65] = "";
  (void)::gethostname(host, sizeof(host) - 1);
  return "events.out.tfevents." + std::to_string(opened_ms / 1000) + "." +
         (host[0] == '\0' ? "scheduler" : host) + "." + std::to_string(::getpid());
}

// A crash was in the midst of a line.
bool IsCutOff(int fd, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

RunLog::RunLog(const LogTarget& target, std::uint64_t opened_ms)
    : target_(target), file_(target.path), opened_ms_(opened_ms) {
  if (target.kind == LogTarget::Kind::kTensorboard) file_ += "/" + EventFileName(opened_ms);
}

void RunLog::Encode(const LogEntry& entry) {
  switch (target_.kind) {
    case LogTarget::Kind::kTensorboard: pending_ += EventFileRecords(entry); return;
    case LogTarget::Kind::kJsonLines:
      pending_ += entry.json;
      pending_ += '\n';
      return;
  }
}

Status RunLog::Write(std::span<const LogEntry> entries) {
  for (const LogEntry& entry : entries) Encode(entry);
  Status status = Append().WithContext(target_.ToString());
  if (status.ok()) {
    pending_.clear();
  } else if (pending_.size() > kPendingBytesMax) {
    pending_.clear();
    status = Status(status.code(), status.message() + "; entries are lost");
  }
  return status;
}

// The file is opened each time: it may be moved away, or its disk may be another by now.
Status RunLog::Append() {
  const std::string folder = std::filesystem::path(file_).parent_path().string();
  if (!folder.empty()) SHOAL_RETURN_IF_ERROR(MakeDirectories(folder));
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int opened,
                         OpenRegularFile(file_, &info, O_RDWR | O_APPEND | O_CREAT));
  const OpenFile file(opened);
  Status status;
  if (target_.kind == LogTarget::Kind::kTensorboard && info.st_size == 0) {
    status = WriteAll(file.fd(), EventFileHead(opened_ms_), file_);
  } else if (target_.kind == LogTarget::Kind::kJsonLines && IsCutOff(file.fd(), info.st_size)) {
    status = WriteAll(file.fd(), "\n", file_);
  }
  if (status.ok()) status = WriteAll(file.fd(), pending_, file_);
  // Readers of event files stop at the first broken record for good.
  if (!status.ok()) (void)!::ftruncate(file.fd(), info.st_size);
  return status;
}

}  // namespace shoal::scheduler
