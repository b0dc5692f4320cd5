#include "dataset/chat/date_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shoal::dataset {
namespace {

constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};
constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};

struct Fields {
  explicit Fields(std::chrono::sys_seconds time)
      : days(std::chrono::floor<std::chrono::days>(time)), date(days), clock(time - days) {}

  std::chrono::sys_days days;
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::seconds> clock;

  std::int64_t month() const { return static_cast<unsigned>(date.month()); }
  std::int64_t day() const { return static_cast<unsigned>(date.day()); }
  std::int64_t year() const { return static_cast<int>(date.year()); }
  std::size_t weekday() const { return std::chrono::weekday(days).c_encoding(); }
  std::int64_t day_of_year() const {
    return (days - std::chrono::sys_days(date.year() / std::chrono::January / 1)).count() + 1;
  }
};

std::string Padded(std::int64_t number, std::size_t width, bool pads) {
  std::string text = std::to_string(number);
  if (pads && text.size() < width) text.insert(0, width - text.size(), '0');
  return text;
}

// A number with its usual width; nothing: the directive is none of a number.
std::optional<std::string> NumberField(const Fields& fields, char directive, bool pads) {
  const std::int64_t hour = fields.clock.hours().count();
  switch (directive) {
    case 'Y': return Padded(fields.year(), 1, pads);
    case 'y': return Padded(fields.year() % 100, 2, pads);
    case 'm': return Padded(fields.month(), 2, pads);
    case 'd': return Padded(fields.day(), 2, pads);
    case 'H': return Padded(hour, 2, pads);
    case 'I': return Padded((hour + 11) % 12 + 1, 2, pads);
    case 'M': return Padded(fields.clock.minutes().count(), 2, pads);
    case 'S': return Padded(fields.clock.seconds().count(), 2, pads);
    case 'j': return Padded(fields.day_of_year(), 3, pads);
    default: return std::nullopt;
  }
}

std::optional<std::string> TextField(const Fields& fields, char directive) {
  constexpr std::size_t kShort = 3;
  const std::string_view month = kMonths[fields.month() - 1], day = kDays[fields.weekday()];
  switch (directive) {
    case 'B': return std::string(month);
    case 'b': return std::string(month.substr(0, kShort));
    case 'A': return std::string(day);
    case 'a': return std::string(day.substr(0, kShort));
    case 'p': return fields.clock.hours().count() < 12 ? "AM" : "PM";
    case 'F':
      return Padded(fields.year(), 1, true) + "-" + Padded(fields.month(), 2, true) + "-" +
             Padded(fields.day(), 2, true);
    case 'T':
      return Padded(fields.clock.hours().count(), 2, true) + ":" +
             Padded(fields.clock.minutes().count(), 2, true) + ":" +
             Padded(fields.clock.seconds().count(), 2, true);
    case '%': return "%";
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::string> DateText(std::chrono::sys_seconds time, std::string_view format) {
  const Fields fields(time);
  std::string text;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    const bool pads = format.substr(i + 1, 1) != "-";
    if (!pads) ++i;
    const char directive = ++i < format.size() ? format[i] : '\0';
    auto field = NumberField(fields, directive, pads);
    if (!field && pads) field = TextField(fields, directive);
    if (!field) {
      return FailedPrecondition("the directive '%" + std::string(pads ? "" : "-") +
                                std::string(directive == '\0' ? 0 : 1, directive) +
                                "' of a date is not supported");
    }
    text += *field;
  }
  return text;
}

}  // namespace shoal::dataset
