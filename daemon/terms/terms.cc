#include "daemon/terms/terms.h"

#include <algorithm>

namespace shoal::daemon {
namespace {

// A decision as it grows.
struct Decision {
  const TermSettings& settings;
  const TermObservations& seen;
  const Calendar& calendar;
  const UnixSeconds now;
  Allowed allowed = {};

  std::string Until(std::optional<UnixSeconds> then) const {
    return then ? " until " + NameOfTime(calendar, now, *then) : "";
  }
  void Changes(std::optional<UnixSeconds> when) {
    if (when) allowed.next_change = std::min(allowed.next_change.value_or(*when), *when);
  }
  bool Timed(std::string_view key) const {
    return std::any_of(settings.timed.begin(), settings.timed.end(),
                       [key](const TimedTerm& term) { return term.key == key; });
  }
};

void Pause(PauseRule rule, std::optional<UnixSeconds> until, const std::string& why, Decision* d) {
  if (!d->allowed.trains()) return;  // the first one is named
  d->allowed.pause = rule;
  d->allowed.until = until;
  d->allowed.pause_text = "paused" + d->Until(until) + ": " + why;
}

void LookAtSchedule(Decision* d) {
  const auto change = d->settings.schedule.NextChange(d->calendar, d->now);
  d->Changes(change);
  if (!d->settings.schedule.Hold(d->calendar.At(d->now))) {
    Pause(PauseRule::kSchedule, change, "schedule", d);
  }
}

void LookAtBudget(Decision* d) {
  Allowed& allowed = d->allowed;
  allowed.budget_bytes = d->settings.budget_bytes;
  if (allowed.budget_bytes == 0) return;
  allowed.budget_used_bytes = d->seen.month_bytes;
  allowed.budget_resets = d->calendar.NextMonth(d->calendar.At(d->now));
  d->Changes(allowed.budget_resets);
  if (allowed.budget_used_bytes + d->seen.reserve_bytes < allowed.budget_bytes) return;
  const bool all = allowed.budget_used_bytes >= allowed.budget_bytes;
  Pause(PauseRule::kBudget, allowed.budget_resets,
        std::string("the transfer budget of the month is used up") +
            (all ? " (" : ", but for handing the stage over (") +
            BudgetText(allowed.budget_used_bytes, allowed.budget_bytes) + ")",
        d);
}

void LookAtMachine(Decision* d) {
  if (!d->seen.program.empty()) {
    Pause(PauseRule::kProgram, std::nullopt, d->seen.program + " runs, or ran a moment ago", d);
  }
  if (d->seen.on_battery && d->settings.pauses_on_battery) {
    Pause(PauseRule::kBattery, std::nullopt, "on battery, or was a moment ago", d);
  }
  if (!d->seen.gpu_user.empty() && d->settings.gpu_free) {
    Pause(PauseRule::kGpu, std::nullopt,
          "the GPU is used by " + d->seen.gpu_user + ", or was a moment ago", d);
  }
}

// The lower one holds; 0 is none.
void Lower(std::optional<BitsPerSecond> quiet, const char* name, std::optional<UnixSeconds> until,
           BitsPerSecond* cap, Decision* d) {
  if (!quiet || d->Timed(name)) return;
  if (cap->value != 0 && *cap <= *quiet) return;
  *cap = *quiet;
  d->allowed.rules.push_back(name + (" " + FormatRate(*cap)) + d->Until(until) + ": quiet hours");
}

void LookAtCaps(Decision* d) {
  d->allowed.upload = d->settings.upload;
  d->allowed.download = d->settings.download;
  if (!d->settings.quiet) return;
  const QuietHours& quiet = *d->settings.quiet;
  const auto change = quiet.times.NextChange(d->calendar, d->now);
  d->Changes(change);
  if (!quiet.times.Hold(d->calendar.At(d->now))) return;
  Lower(quiet.upload, "upload", change, &d->allowed.upload, d);
  Lower(quiet.download, "download", change, &d->allowed.download, d);
}

}  // namespace

std::string_view PauseRuleName(PauseRule rule) {
  switch (rule) {
    case PauseRule::kNone: return "none";
    case PauseRule::kSchedule: return "schedule";
    case PauseRule::kBudget: return "budget";
    case PauseRule::kProgram: return "program";
    case PauseRule::kBattery: return "battery";
    case PauseRule::kGpu: return "gpu";
  }
  return "none";
}

Allowed Decide(const TermSettings& settings, const TermObservations& seen, const Calendar& calendar,
               UnixSeconds now) {
  Decision d{settings, seen, calendar, now};
  LookAtSchedule(&d);
  LookAtBudget(&d);
  LookAtMachine(&d);
  LookAtCaps(&d);
  d.allowed.gpu_watts = settings.gpu_watts;
  d.allowed.device_memory_bytes = settings.device_memory_bytes;
  for (const TimedTerm& term : settings.timed) {
    d.Changes(term.until);
    d.allowed.rules.push_back(term.key + "=" + term.value + d.Until(term.until) +
                              ": set for a time");
  }
  Allowed& allowed = d.allowed;
  if (!settings.exclusive.empty() && !seen.hidden.empty()) {
    allowed.rules.push_back("exclusive: " + seen.hidden);
  }
  if (!allowed.trains()) allowed.rules.insert(allowed.rules.begin(), allowed.pause_text);
  if (allowed.budget_bytes > 0) {
    allowed.rules.push_back(
        "transfer budget: " + BudgetText(allowed.budget_used_bytes, allowed.budget_bytes) +
        " used, resets on " +
        NameOfTime(calendar, now - 7 * 24 * 3600, *allowed.budget_resets));  // by its date
  }
  return allowed;
}

}  // namespace shoal::daemon
