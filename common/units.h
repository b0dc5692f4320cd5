// Units as types, and their text forms in configs and on command lines.

#ifndef SHOAL_COMMON_UNITS_H_
#define SHOAL_COMMON_UNITS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"

namespace shoal {

// A link rate; 0 means no limit where a limit is meant.
struct BitsPerSecond {
  std::uint64_t value = 0;

  double bytes_per_second() const { return static_cast<double>(value) / 8.0; }
  auto operator<=>(const BitsPerSecond&) const = default;
};

// "20mbit", "1.5gbit", "500kbit", "2.5MB/s" (decimal), "off" or "unlimited" (0). A number without
// unit is refused: the message says what to write.
Result<BitsPerSecond> ParseRate(std::string_view text);
// "20 Mbit/s", or "unlimited".
std::string FormatRate(BitsPerSecond rate);

// "512", "8KiB", "20MiB", "1.5GiB", "10GB".
Result<std::uint64_t> ParseBytes(std::string_view text);
// The same, but a number above 0 needs its unit.
Result<std::uint64_t> ParseBytesWithUnit(std::string_view text);
// "1.5 GiB".
std::string FormatBytes(std::uint64_t bytes);

// "250ms", "10s", "5m", "2h", "7d".
Result<Duration> ParseDuration(std::string_view text);
// "1h 02m", "3m 20s", "4.2s", "35ms".
std::string FormatDuration(Duration duration);

}  // namespace shoal

#endif  // SHOAL_COMMON_UNITS_H_
