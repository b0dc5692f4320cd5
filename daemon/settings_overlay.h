// SettingsOverlay: what was set at run time (`shoal set`, `shoal join`, `shoal pause`), kept in
// <directory>/overlay.json so that it survives a restart. The config file is never rewritten.

#ifndef SHOAL_DAEMON_SETTINGS_OVERLAY_H_
#define SHOAL_DAEMON_SETTINGS_OVERLAY_H_

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/units.h"
#include "daemon/config.h"

namespace shoal::daemon {

struct SettingsOverlay {
  std::optional<BitsPerSecond> upload;
  std::optional<BitsPerSecond> download;
  std::optional<std::string> invite;
  bool paused = false;
};

// A missing file is an empty overlay; a damaged one is an error that names it.
Result<SettingsOverlay> ReadOverlay(const std::string& path);
// Atomic; mode 0600, since the invite holds a secret.
Status WriteOverlay(const std::string& path, const SettingsOverlay& overlay);

// Which caps count at the start: what was typed last. A flag is newer than an earlier `shoal set`,
// which is dropped; that in turn goes before file and environment. A line for each that gave way.
std::vector<std::string> SettleCaps(const DaemonConfig& config, SettingsOverlay* overlay);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_SETTINGS_OVERLAY_H_
