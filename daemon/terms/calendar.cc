#include "daemon/terms/calendar.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace shoal::daemon {
namespace {

constexpr UnixSeconds kDay = 24 * 3600;
constexpr std::array kDays = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array kMonths = {"January",   "February", "March",    "April",
                                "May",       "June",     "July",     "August",
                                "September", "October",  "November", "December"};

class MachineCalendar final : public Calendar {
 public:
  LocalTime At(UnixSeconds time) const override {
    ::tzset();  // a laptop travels
    const std::time_t seconds = static_cast<std::time_t>(time);
    std::tm local{};
    if (::localtime_r(&seconds, &local) == nullptr) return {};
    return {local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, (local.tm_wday + 6) % 7,
            local.tm_hour * 60 + local.tm_min};
  }

  UnixSeconds NextMonth(const LocalTime& local) const override {
    std::tm first{};
    first.tm_year = local.year - 1900;
    first.tm_mon = local.month;  // counts from 0, so the next one
    first.tm_mday = 1;
    first.tm_isdst = -1;
    return static_cast<UnixSeconds>(std::mktime(&first));
  }
};

}  // namespace

const Calendar& SystemCalendar() {
  static const MachineCalendar calendar;
  return calendar;
}

std::string NameOfTime(const Calendar& calendar, UnixSeconds now, UnixSeconds then) {
  const LocalTime local = calendar.At(then);
  std::array<char, 64> text{};
  if (then - now <= kDay) {
    std::snprintf(text.data(), text.size(), "%02d:%02d", local.minute / 60, local.minute % 60);
  } else if (then - now <= 6 * kDay) {
    std::snprintf(text.data(), text.size(), "%s %02d:%02d",
                  kDays[static_cast<std::size_t>(local.weekday)], local.minute / 60,
                  local.minute % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%d %s", local.day,
                  kMonths[static_cast<std::size_t>(local.month - 1)]);
  }
  return text.data();
}

}  // namespace shoal::daemon
