// A machine whose clocks, programs and battery a test sets. Its calendar is the real one, in a zone
// with daylight saving (TZ).

#ifndef SHOAL_TESTS_UNIT_DAEMON_TERMS_FAKE_MACHINE_H_
#define SHOAL_TESTS_UNIT_DAEMON_TERMS_FAKE_MACHINE_H_

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "daemon/terms/machine.h"

namespace shoal::daemon {

// Central Europe: clocks go forward on the last Sunday of March at 02:00, back on that of October
// at 03:00.
inline void UseCentralEurope() { ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1); }

inline constexpr UnixSeconds kHour = 3600, kDay = 24 * kHour;
// Monday, 5 January 2026, 00:00 in Central Europe.
inline constexpr UnixSeconds kMonday = 1'767'567'600;

class FakeMachine final : public Machine {
 public:
  FakeMachine() { UseCentralEurope(); }

  std::int64_t UnixMs() const override { return unix_ms; }
  Duration SinceBoot() const override { return boot; }
  const Calendar& calendar() const override { return SystemCalendar(); }
  ProgramSight Look(const std::vector<std::string>& programs) const override {
    for (const std::string& name : programs) {
      if (name == running) return {name, hidden};
    }
    return {"", hidden};
  }
  bool OnBattery() const override { return on_battery; }
  std::string OtherProgram(int pid) const override {
    const auto found = programs_by_pid.find(pid);
    return found == programs_by_pid.end() ? "" : found->second;
  }

  std::int64_t unix_ms = kMonday * 1000;
  Duration boot{};
  std::string running, hidden;
  bool on_battery = false;
  std::map<int, std::string> programs_by_pid;  // others
};

}  // namespace shoal::daemon

#endif  // SHOAL_TESTS_UNIT_DAEMON_TERMS_FAKE_MACHINE_H_
