// SettingsOverlay: what was set at run time (`shoal set`, `shoal join`, `shoal pause`), kept in
// <directory>/overlay.json so that it survives a restart. The config file is never rewritten.

#ifndef SHOAL_DAEMON_SETTINGS_OVERLAY_H_
#define SHOAL_DAEMON_SETTINGS_OVERLAY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/units.h"
#include "daemon/config.h"
#include "daemon/terms/term_settings.h"

namespace shoal::daemon {

struct TimedValue {
  std::string value;
  std::int64_t until_ms = 0;  // since 1970
};

struct SettingsOverlay {
  std::optional<BitsPerSecond> upload;
  std::optional<BitsPerSecond> download;
  std::map<std::string, std::string> terms;  // of the other keys of ApplyTerm
  std::map<std::string, TimedValue> timed;   // of all of its keys; goes before the above
  std::optional<std::string> invite;
  std::optional<std::string> name;  // of the peer
  bool paused = false;
  std::int64_t paused_until_ms = 0;  // since 1970; 0: until `shoal resume`
};

// A missing file is an empty overlay; a damaged one is an error that names it.
Result<SettingsOverlay> ReadOverlay(const std::string& path);
// Atomic; mode 0600, since the invite holds a secret.
Status WriteOverlay(const std::string& path, const SettingsOverlay& overlay);

// When what begins now and lasts `lasts` ("8h") ends, ms since 1970. Pure.
Result<std::int64_t> EndOf(const std::string& lasts, std::int64_t now_ms);

// The overlay after `shoal set` with these arguments: keys and values, "default" for that of the
// config file, and "for", how long they hold. Pure.
Result<SettingsOverlay> WithSettings(SettingsOverlay overlay,
                                     const std::map<std::string, std::string>& arguments,
                                     std::int64_t now_ms);

// What holds at a moment: the config, what was set, what was set for a time. Pure.
TermSettings TermsInForce(const DaemonConfig& config, const SettingsOverlay& overlay,
                          std::int64_t now_ms);

// What holds at a moment as people type it: {"schemaVersion":1,"settings":[{"name","help","value",
// "until"},...]}, one entry per key of `shoal set`; "until", ms since 1970, or 0. Pure.
std::string SettingsJson(const DaemonConfig& config, const SettingsOverlay& overlay,
                         std::int64_t now_ms);

// The flag of shoald for a setting, if there is one: "--on-battery" for "on_battery".
std::string FlagOf(std::string_view setting);

// What counts at the start: what was typed last. A flag is newer than an earlier `shoal set`, which
// is dropped; that in turn goes before file and environment. A line for each that gave way. What
// was typed to be kept (`shoal join`) is set then.
std::vector<std::string> SettleSettings(const DaemonConfig& config, SettingsOverlay* overlay);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_SETTINGS_OVERLAY_H_
