#include "common/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace shoal {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

struct NumberAndUnit {
  double number;
  std::string_view unit;
};

Result<NumberAndUnit> SplitNumber(std::string_view text, std::string_view what,
                                  std::string_view example) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    return InvalidArgument("'" + std::string(text) + "' is not a " + std::string(what) +
                           "; write for example " + std::string(example));
  }
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  return NumberAndUnit{number, unit};
}

template <std::size_t N>
Result<double> Scale(std::string_view text, std::string_view what, std::string_view example,
                     const std::array<Suffix, N>& suffixes) {
  SHOAL_ASSIGN_OR_RETURN(const NumberAndUnit parsed, SplitNumber(text, what, example));
  for (const Suffix& suffix : suffixes) {
    if (parsed.unit == suffix.text) return parsed.number * suffix.factor;
  }
  return InvalidArgument("'" + std::string(text) + "' has no known unit of a " + std::string(what) +
                         "; write for example " + std::string(example));
}

constexpr std::array kRateSuffixes = {
    Suffix{"bit", 1},   Suffix{"kbit", 1e3},   Suffix{"mbit", 1e6},   Suffix{"gbit", 1e9},
    Suffix{"bit/s", 1}, Suffix{"kbit/s", 1e3}, Suffix{"Mbit/s", 1e6}, Suffix{"Gbit/s", 1e9},
    Suffix{"B/s", 8},   Suffix{"kB/s", 8e3},   Suffix{"MB/s", 8e6},   Suffix{"GB/s", 8e9},
};

constexpr std::array kByteSuffixes = {
    Suffix{"", 1},
    Suffix{"B", 1},
    Suffix{"kB", 1e3},
    Suffix{"MB", 1e6},
    Suffix{"GB", 1e9},
    Suffix{"TB", 1e12},
    Suffix{"KiB", 1024.0},
    Suffix{"MiB", 1024.0 * 1024},
    Suffix{"GiB", 1024.0 * 1024 * 1024},
    Suffix{"TiB", 1024.0 * 1024 * 1024 * 1024},
};

constexpr std::array kDurationSuffixes = {
    Suffix{"ms", 1e6},   Suffix{"s", 1e9},     Suffix{"m", 60e9},
    Suffix{"h", 3600e9}, Suffix{"d", 86400e9},
};

std::string Printf(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

Result<BitsPerSecond> ParseRate(std::string_view text) {
  if (text == "off" || text == "unlimited") return BitsPerSecond{0};
  SHOAL_ASSIGN_OR_RETURN(const double bits,
                         Scale(text, "rate", "20mbit, 1gbit, 2.5MB/s or off", kRateSuffixes));
  if (bits < 1 || bits > 1e15) {
    return InvalidArgument("rate '" + std::string(text) +
                           "' is out of range; 'off' means no limit");
  }
  return BitsPerSecond{static_cast<std::uint64_t>(std::llround(bits))};
}

std::string FormatRate(BitsPerSecond rate) {
  const double bits = static_cast<double>(rate.value);
  if (rate.value == 0) return "unlimited";
  if (bits >= 1e9) return Printf("%.4g Gbit/s", bits / 1e9);
  if (bits >= 1e6) return Printf("%.4g Mbit/s", bits / 1e6);
  if (bits >= 1e3) return Printf("%.4g kbit/s", bits / 1e3);
  return Printf("%.0f bit/s", bits);
}

Result<std::uint64_t> ParseBytes(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const double bytes,
                         Scale(text, "size", "512MiB, 20GiB or 10GB", kByteSuffixes));
  if (bytes > 1e18) return InvalidArgument("size '" + std::string(text) + "' is out of range");
  return static_cast<std::uint64_t>(std::llround(bytes));
}

Result<std::uint64_t> ParseBytesWithUnit(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseBytes(text));
  if (bytes == 0 || text.find('B') != text.npos) return bytes;
  return InvalidArgument("'" + std::string(text) + "' has no unit of a size; write for example " +
                         std::string(text) + "GiB");
}

std::string FormatBytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // What would print as 1024.0 is one of the next unit.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return Printf(value < 10 ? "%.2f " : "%.1f ", value) + kUnits[unit];
}

Result<Duration> ParseDuration(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const double nanoseconds,
                         Scale(text, "duration", "250ms, 10s, 5m, 2h or 7d", kDurationSuffixes));
  if (nanoseconds > 9e18)
    return InvalidArgument("duration '" + std::string(text) + "' is too long");
  return Duration(std::llround(nanoseconds));
}

std::string FormatDuration(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  // The borders lie where the rounded text would read 1000ms or 60.0s.
  if (seconds < 0.9995) return Printf("%.0fms", seconds * 1e3);
  if (seconds < 59.95) return Printf("%.1fs", seconds);
  const auto total = static_cast<std::int64_t>(seconds + 0.5);
  std::array<char, 64> text;
  if (total < 3600) {
    std::snprintf(text.data(), text.size(), "%dm %02ds", static_cast<int>(total / 60),
                  static_cast<int>(total % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lldh %02dm", static_cast<long long>(total / 3600),
                  static_cast<int>(total / 60 % 60));
  }
  return text.data();
}

}  // namespace shoal
