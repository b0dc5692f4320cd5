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

class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::int64_t UnixMs() const = 0;
  // Unlike steady time it goes on while the machine sleeps.
  virtual Duration SinceBoot() const = 0;
  virtual const Calendar& calendar() const = 0;
  // The first of `programs` that runs as this user; empty: none does. May take milliseconds.
  virtual std::string RunningOf(const std::vector<std::string>& programs) const = 0;
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
  std::string RunningOf(const std::vector<std::string>& programs) const override;
  bool OnBattery() const override;
  std::string OtherProgram(int pid) const override;

 private:
  const std::string proc_, power_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_MACHINE_H_
