#include "daemon/terms/week_times.h"

#include <algorithm>
#include <array>
#include <string>

namespace shoal::daemon {
namespace {

constexpr std::size_t kEntriesMax = 32;
constexpr int kDayMinutes = 24 * 60;
constexpr UnixSeconds kAhead = 8 * 24 * 3600;
// Clocks are set for daylight saving at a quarter of an hour, everywhere.
constexpr UnixSeconds kQuarter = 15 * 60;
constexpr std::uint8_t kEveryDay = 0x7f;
constexpr std::array<std::string_view, 7> kDays = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
constexpr const char* kExample = "write for example \"mon-fri 18:00-08:00, sat-sun all\" or always";

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Status Wrong(std::string_view text, const char* what) {
  return InvalidArgument("'" + std::string(text) + "' " + what + "; " + kExample);
}

std::optional<std::size_t> DayOf(std::string_view text) {
  const auto found = std::find(kDays.begin(), kDays.end(), text);
  if (found == kDays.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kDays.begin());
}

std::optional<std::uint8_t> DaysOf(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = DayOf(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : DayOf(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  std::uint8_t days = 0;
  for (std::size_t day = *first;; day = (day + 1) % kDays.size()) {
    days = static_cast<std::uint8_t>(days | 1u << day);
    if (day == *last) return days;
  }
}

// "18:00" as minutes; "24:00" is the end of the day.
std::optional<int> MinuteOf(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  int digits[4];
  for (int i = 0; i < 4; ++i) {
    const char c = text[static_cast<std::size_t>(i < 2 ? i : i + 1)];
    if (c < '0' || c > '9') return std::nullopt;
    digits[i] = c - '0';
  }
  const int hour = digits[0] * 10 + digits[1], minute = digits[2] * 10 + digits[3];
  const int all = hour * 60 + minute;
  if (minute > 59 || all > kDayMinutes) return std::nullopt;
  return all;
}

}  // namespace

Result<WeekTimes::Entry> WeekTimes::ParseEntry(std::string_view text) {
  Entry entry;
  entry.days = kEveryDay;
  std::string_view times = text;
  if (const std::size_t space = text.find(' '); space != std::string_view::npos) {
    const auto days = DaysOf(text.substr(0, space));
    if (!days) return Wrong(text, "does not begin with days, like mon, fri-mon or sat-sun");
    entry.days = *days;
    times = Trimmed(text.substr(space + 1));
  }
  entry.to = kDayMinutes;
  if (times == "all") return entry;
  const std::size_t dash = times.find('-');
  const auto from = MinuteOf(times.substr(0, dash));
  const auto to = dash == std::string_view::npos ? std::nullopt : MinuteOf(times.substr(dash + 1));
  if (!from || !to || *from == kDayMinutes) return Wrong(text, "has no times like 18:00-08:00");
  if (*from == *to) return Wrong(text, "ends when it begins: all of a day is 'all'");
  entry.from = *from;
  entry.to = *to;
  return entry;
}

Result<WeekTimes> WeekTimes::Parse(std::string_view text) {
  WeekTimes times;
  text = Trimmed(text);
  if (text == "always") return times;
  while (true) {
    const std::size_t comma = text.find(',');
    SHOAL_ASSIGN_OR_RETURN(const Entry entry, ParseEntry(Trimmed(text.substr(0, comma))));
    times.entries_.push_back(entry);
    if (comma == std::string_view::npos) return times;
    if (times.entries_.size() == kEntriesMax) {
      return InvalidArgument("more than " + std::to_string(kEntriesMax) + " times of the week; " +
                             kExample);
    }
    text.remove_prefix(comma + 1);
  }
}

bool WeekTimes::Hold(const LocalTime& local) const {
  if (always()) return true;
  const unsigned today = 1u << local.weekday, yesterday = 1u << (local.weekday + 6) % 7;
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool over_midnight = entry.to <= entry.from;
    if ((entry.days & today) && local.minute >= entry.from &&
        (over_midnight || local.minute < entry.to)) {
      return true;
    }
    return over_midnight && (entry.days & yesterday) && local.minute < entry.to;
  });
}

int WeekTimes::NextBorder(int minute) const {
  int next = kDayMinutes;
  for (const Entry& entry : entries_) {
    for (const int border : {entry.from, entry.to}) {
      if (border > minute) next = std::min(next, border);
    }
  }
  return next;
}

// Steps from border to border, but never over a moment at which clocks may be set.
std::optional<UnixSeconds> WeekTimes::NextChange(const Calendar& calendar, UnixSeconds now) const {
  if (always()) return std::nullopt;
  const bool holds = Hold(calendar.At(now));
  UnixSeconds at = now - now % 60;
  while (at <= now + kAhead) {
    const int minute = calendar.At(at).minute;
    const UnixSeconds border = at + (NextBorder(minute) - minute) * 60;
    at = std::min(border, at - at % kQuarter + kQuarter);
    if (Hold(calendar.At(at)) != holds) return at;
  }
  return std::nullopt;
}

}  // namespace shoal::daemon
