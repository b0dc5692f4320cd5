// EventLog: the scheduler's persistent, ordered history. Appending is durable before it returns.
// Thread: one at a time.

#ifndef SHOAL_STORAGE_CHECKPOINTS_EVENT_LOG_H_
#define SHOAL_STORAGE_CHECKPOINTS_EVENT_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::storage {

class EventLog {
 public:
  virtual ~EventLog() = default;
  // Adds an event; returns its number (1, 2, ...). fsynced.
  virtual Result<std::uint64_t> Append(std::string_view event) = 0;
  // Calls `visit` for each event in order; stops at and returns its first error.
  virtual Status Replay(
      const std::function<Status(std::uint64_t number, std::string_view event)>& visit) = 0;
};

Result<std::unique_ptr<EventLog>> OpenRocksEventLog(const std::string& path);
// Replays the log in `path` as it is now, also while another process has it open. Not found: there
// is none.
Status ReadRocksEventLog(
    const std::string& path,
    const std::function<Status(std::uint64_t number, std::string_view event)>& visit);
// Makes a log of these events, in order, whole or not at all. Already exists: one is there.
Status WriteRocksEventLog(const std::string& path, std::span<const std::string> events);
std::unique_ptr<EventLog> NewMemoryEventLog();

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_CHECKPOINTS_EVENT_LOG_H_
