// SimMachine: a machine in virtual time whose owner comes and goes.

#ifndef SHOAL_TESTS_SUPPORT_SIM_MACHINE_H_
#define SHOAL_TESTS_SUPPORT_SIM_MACHINE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/terms/machine.h"

namespace shoal::test_support {

class SimMachine final : public daemon::Machine {
 public:
  explicit SimMachine(const Clock* clock) : clock_(*clock) {}

  std::int64_t UnixMs() const override {
    constexpr std::int64_t kBegin = 1'767'567'600'000;
    return kBegin + std::chrono::duration_cast<std::chrono::milliseconds>(SinceBoot()).count();
  }
  Duration SinceBoot() const override { return clock_.Now().time_since_epoch() + slept; }
  const daemon::Calendar& calendar() const override { return daemon::SystemCalendar(); }
  daemon::ProgramSight Look(const std::vector<std::string>& programs) const override {
    return {busy && !programs.empty() ? programs.front() : "", ""};
  }
  bool OnBattery() const override { return false; }
  std::string OtherProgram(int) const override { return ""; }

  bool busy = false;  // a program of its owner runs
  Duration slept{};

 private:
  const Clock& clock_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_SIM_MACHINE_H_
