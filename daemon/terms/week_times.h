// WeekTimes: the times of a week that a text names, like "mon-fri 18:00-08:00, sat-sun all".

#ifndef SHOAL_DAEMON_TERMS_WEEK_TIMES_H_
#define SHOAL_DAEMON_TERMS_WEEK_TIMES_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "daemon/terms/calendar.h"

namespace shoal::daemon {

class WeekTimes {
 public:
  // Always.
  WeekTimes() = default;

  // "always", or entries "[DAYS] TIMES" with commas between them. DAYS: mon or fri-mon, every day
  // where none are named. TIMES: 18:00-24:00, all, or 18:00-08:00, which ends on the day behind.
  static Result<WeekTimes> Parse(std::string_view text);

  bool always() const { return entries_.empty(); }
  bool Hold(const LocalTime& local) const;
  // When that next changes, at most eight days ahead; none: not in that time.
  std::optional<UnixSeconds> NextChange(const Calendar& calendar, UnixSeconds now) const;

 private:
  struct Entry {
    std::uint8_t days = 0;  // bit 0: Monday
    int from = 0, to = 0;   // minutes of the day; to <= from: on the day behind
  };
  static Result<Entry> ParseEntry(std::string_view text);
  // The first minute of this day behind `minute` at which an entry may begin or end; else 1440.
  int NextBorder(int minute) const;

  std::vector<Entry> entries_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_WEEK_TIMES_H_
