// The bytes of TensorBoard's event files: records of TFRecord, each a protobuf message
// tensorflow.Event. docs/STORAGE.md has the layout. Pure; thread: any.

#ifndef SHOAL_SCHEDULER_TRACKING_EVENT_FILE_H_
#define SHOAL_SCHEDULER_TRACKING_EVENT_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "scheduler/tracking/log_entry.h"

namespace shoal::scheduler {

// What every file begins with.
std::string EventFileHead(std::uint64_t at_ms);
// The records of one entry; empty: it has nothing that TensorBoard shows.
std::string EventFileRecords(const LogEntry& entry);
// The frame around one record.
std::string TfRecord(std::string_view data);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_EVENT_FILE_H_
