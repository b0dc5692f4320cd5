// UsageLedger: what taking part cost this machine, by day and in all. Its file is
// <directory>/usage.json (docs/STORAGE.md).

#ifndef SHOAL_DAEMON_TERMS_USAGE_LEDGER_H_
#define SHOAL_DAEMON_TERMS_USAGE_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/status.h"
#include "daemon/terms/calendar.h"

namespace shoal::daemon {

struct Usage {
  std::uint64_t trained_ms = 0;  // time in state training
  std::uint64_t micro_batches = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // on the wire, the scheduler's too
  std::uint64_t energy_joules = 0;                   // of the GPU, where its driver tells

  void Add(const Usage& more);
  bool operator==(const Usage&) const = default;
};

inline constexpr std::size_t kUsageDaysMax = 100;
inline constexpr std::uint64_t kUsageFileBytesMax = 64 * 1024;

class UsageLedger {
 public:
  // An error says what is wrong with the text.
  static Result<UsageLedger> Parse(std::string_view text);
  std::string Text() const;

  void Add(const LocalTime& when, const Usage& more);
  Usage Day(const LocalTime& when) const;
  Usage Month(const LocalTime& when) const;  // of the calendar month in which that is
  const Usage& total() const { return total_; }
  // By date, 20261128; the newest kUsageDaysMax.
  const std::map<int, Usage>& days() const { return days_; }

 private:
  std::map<int, Usage> days_;
  Usage total_;
};

// One without a file is empty. An error says what to do about a damaged file.
Result<UsageLedger> ReadUsageLedger(const std::string& path);

// What `shoal stats --json` prints: days, the oldest first, all of them together, and the disk
// space taken now.
std::string StatsJson(const UsageLedger& ledger, std::uint64_t disk_bytes);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_USAGE_LEDGER_H_
