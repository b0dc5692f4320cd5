// Machine: what terms need to know of the machine; tests pass a fake one.

#ifndef SHOAL_DAEMON_TERMS_MACHINE_H_
#define SHOAL_DAEMON_TERMS_MACHINE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "daemon/terms/calendar.h"

namespace shoal::daemon {

// What was seen of programs.
struct ProgramSight {
  std::string running;  // the first of those asked for that runs; empty: none does
  std::string hidden;   // which programs cannot be seen, and why; empty: all can
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::int64_t UnixMs() const = 0;
  // Unlike steady time it goes on while the machine sleeps.
  virtual Duration SinceBoot() const = 0;
  virtual const Calendar& calendar() const = 0;
  // Of all users: a service runs as one of its own. May take milliseconds.
  virtual ProgramSight Look(const std::vector<std::string>& programs) const = 0;
  // False on a machine without a battery.
  virtual bool OnBattery() const = 0;
  // What the program of a process is called. Empty: it is this process, a child of it, or might be.
  virtual std::string OtherProgram(int pid) const = 0;
};

// Reads `proc` (/proc) and `power` (/sys/class/power_supply). Thread: any.
class LinuxMachine final : public Machine {
 public:
  LinuxMachine(std::string proc, std::string power)
      : proc_(std::move(proc)), power_(std::move(power)) {}

  std::int64_t UnixMs() const override;
  Duration SinceBoot() const override;
  const Calendar& calendar() const override { return SystemCalendar(); }
  ProgramSight Look(const std::vector<std::string>& programs) const override;
  bool OnBattery() const override;
  std::string OtherProgram(int pid) const override;

 private:
  const std::string proc_, power_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_MACHINE_H_
