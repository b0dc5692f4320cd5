// TermSettings: on which terms the owner of this machine lets it take part. The keys of `shoal set`
// and their parsers.

#ifndef SHOAL_DAEMON_TERMS_TERM_SETTINGS_H_
#define SHOAL_DAEMON_TERMS_TERM_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "common/units.h"
#include "daemon/terms/week_times.h"

namespace shoal::daemon {

// Caps that hold at some times only; a direction without one keeps its own.
struct QuietHours {
  WeekTimes times;
  std::optional<BitsPerSecond> upload, download;
};

// A value that holds for a time (`shoal set KEY=VALUE --for TIME`).
struct TimedTerm {
  std::string key, value;
  UnixSeconds until = 0;
};

struct TermSettings {
  BitsPerSecond upload, download;  // 0: no cap
  WeekTimes schedule;              // when it may train
  std::optional<QuietHours> quiet;
  std::uint64_t budget_bytes = 0;      // of a calendar month, both ways; 0: none
  std::vector<std::string> exclusive;  // programs beside which it does not train
  bool pauses_on_battery = true;
  std::optional<Duration> gpu_free;       // pauses until nobody else used the GPU for so long
  std::uint32_t gpu_watts = 0;            // most power of the GPU; 0: as the driver has it
  std::uint64_t disk_bytes = 0;           // most that the peer's folder takes; 0: any
  std::uint64_t device_memory_bytes = 0;  // most that a stage takes of its device; 0: what it has
  std::vector<TimedTerm> timed;           // those in force; their values are in the fields above
};

// The keys: "upload", "download", "schedule", ...
const std::vector<std::string>& TermKeys();
// Reads the value of a key into its field. An error shows an example. Pure.
Status ApplyTerm(std::string_view key, std::string_view value, TermSettings* settings);

// "5 Mbit/s" or "unlimited"; "212 of 300 GB". Pure.
std::string BudgetText(std::uint64_t used_bytes, std::uint64_t budget_bytes);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_TERM_SETTINGS_H_
