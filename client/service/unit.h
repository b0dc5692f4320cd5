// The systemd unit of shoald, as text. Pure.

#ifndef SHOAL_CLIENT_SERVICE_UNIT_H_
#define SHOAL_CLIENT_SERVICE_UNIT_H_

#include <string>

namespace shoal::client {

inline constexpr const char* kUnitName = "shoald.service";

// The first line: files without it are not ours to replace or remove.
inline constexpr const char* kUnitMark = "# Written by `shoal service`.";

struct UnitOptions {
  bool system = false;    // of the machine, started as root; else of the user who is logged in
  std::string program;    // full path of shoald
  std::string directory;  // of its state; empty: what shoald takes, /var/lib/shoal of the machine's
  std::string config;     // full path of its settings; may be empty
};

std::string UnitText(const UnitOptions& options);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_SERVICE_UNIT_H_
