// What the owner's terms allow at a moment: whether to train, and within which caps. Pure.

#ifndef SHOAL_DAEMON_TERMS_TERMS_H_
#define SHOAL_DAEMON_TERMS_TERMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/units.h"
#include "daemon/terms/calendar.h"
#include "daemon/terms/term_settings.h"

namespace shoal::daemon {

// Which rule keeps the peer from training.
enum class PauseRule : std::uint8_t { kNone, kSchedule, kBudget, kProgram, kBattery, kGpu };

// "none", "schedule", "budget", "program", "battery", "gpu".
std::string_view PauseRuleName(PauseRule rule);

// What was seen of the machine.
struct TermObservations {
  std::string program;  // of TermSettings::exclusive, that runs or ran just now; empty: none
  std::string hidden;   // programs that cannot be seen, and why; empty: none
  bool on_battery = false;
  std::string gpu_user;  // another program that works on the GPU, or did just now; empty: none
  std::uint64_t month_bytes = 0;    // sent and received in this calendar month
  std::uint64_t reserve_bytes = 0;  // of the budget, for handing the stage over
};

struct Allowed {
  PauseRule pause = PauseRule::kNone;
  std::string pause_text;                  // "paused until 18:00: schedule"; empty: it may train
  std::optional<UnixSeconds> until;        // of the pause; none: not known
  BitsPerSecond upload, download;          // 0: no cap
  std::uint32_t gpu_watts = 0;             // 0: as the driver has it
  std::uint64_t device_memory_bytes = 0;   // 0: what the device has
  std::vector<std::string> rules;          // all that is in force, for people, `pause_text` first
  std::optional<UnixSeconds> next_change;  // by the clock
  std::uint64_t budget_used_bytes = 0, budget_bytes = 0;
  std::optional<UnixSeconds> budget_resets;

  bool trains() const { return pause == PauseRule::kNone; }
  bool operator==(const Allowed&) const = default;
};

Allowed Decide(const TermSettings& settings, const TermObservations& seen, const Calendar& calendar,
               UnixSeconds now);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_TERMS_H_
