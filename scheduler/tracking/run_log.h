// RunLog: one log of a run on disk, TensorBoard's or lines of JSON. Blocks on disk.
// Thread: one at a time.

#ifndef SHOAL_SCHEDULER_TRACKING_RUN_LOG_H_
#define SHOAL_SCHEDULER_TRACKING_RUN_LOG_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/status.h"
#include "scheduler/config/log_target.h"
#include "scheduler/tracking/log_entry.h"

namespace shoal::scheduler {

class RunLog {
 public:
  // What the disk did not take is kept for the next try, but no more than this.
  static constexpr std::size_t kPendingBytesMax = std::size_t{4} << 20;

  // `opened_ms`: since 1970; names the event file. Nothing is touched yet.
  RunLog(const LogTarget& target, std::uint64_t opened_ms);

  // Appends the entries, behind those that are still pending. Makes folders and file where they are
  // missing. After an error the file has whole entries only, and these are pending.
  Status Write(std::span<const LogEntry> entries);

  const LogTarget& target() const { return target_; }

 private:
  Status Append();
  void Encode(const LogEntry& entry);

  const LogTarget target_;
  std::string file_;
  std::uint64_t opened_ms_;
  std::string pending_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_RUN_LOG_H_
