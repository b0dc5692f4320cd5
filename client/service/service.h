// `shoal service`: shoald as a service of systemd.

#ifndef SHOAL_CLIENT_SERVICE_SERVICE_H_
#define SHOAL_CLIENT_SERVICE_SERVICE_H_

#include <string>
#include <vector>

#include "common/exit_code.h"
#include "common/status.h"

namespace shoal::client {

struct ServiceOptions {
  bool system = false;    // the machine's, as root; else the user's
  std::string directory;  // of shoald's state; empty: what it takes
  std::string config;     // its settings; may be empty
  std::string program;    // full path of shoald; empty: beside this program
  bool json = false;
};

// Writes the unit; where systemd runs, also starts it, now and with the machine.
ExitCode ServiceInstall(const ServiceOptions& options);
// Stops it and removes the unit. What shoald stored stays.
ExitCode ServiceRemove(const ServiceOptions& options);
ExitCode ServiceStatus(const ServiceOptions& options);
ExitCode ServiceUnit(const ServiceOptions& options);  // prints it

// Stops a unit that is there, now and at the next start of the machine, where systemd runs.
Status StopService(const ServiceOptions& options);

// Whether the unit at `path` is one of `shoal service`.
bool WrittenByShoal(const std::string& path);
// Where the unit is written.
std::string UnitPath(const ServiceOptions& options);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_SERVICE_SERVICE_H_
