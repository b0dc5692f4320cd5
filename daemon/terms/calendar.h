// Calendar: what local clocks and calendars show at a moment, daylight saving included. Rules of
// people ("18:00", "a month") are in local time, all else in seconds since 1970.

#ifndef SHOAL_DAEMON_TERMS_CALENDAR_H_
#define SHOAL_DAEMON_TERMS_CALENDAR_H_

#include <cstdint>
#include <string>

namespace shoal::daemon {

using UnixSeconds = std::int64_t;

struct LocalTime {
  int year = 1970, month = 1, day = 1;  // month and day from 1
  int weekday = 3;                      // 0: Monday
  int minute = 0;                       // of the day

  int date() const { return (year * 100 + month) * 100 + day; }
};

class Calendar {
 public:
  virtual ~Calendar() = default;
  virtual LocalTime At(UnixSeconds time) const = 0;
  // When the month behind that of `local` begins.
  virtual UnixSeconds NextMonth(const LocalTime& local) const = 0;
};

// That of the machine, by TZ or /etc/localtime, also after these change. Lives for ever. Thread:
// any.
const Calendar& SystemCalendar();

// `then` as people name it at `now`: "18:00" within a day, "Mon 18:00" within six, else
// "1 December". Pure.
std::string NameOfTime(const Calendar& calendar, UnixSeconds now, UnixSeconds then);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_CALENDAR_H_
