// What `shoal set` changes in a running shoald: one row a setting, for the daemon, the CLI and what
// shells complete.

#ifndef SHOAL_NET_CONTROL_LIVE_SETTINGS_H_
#define SHOAL_NET_CONTROL_LIVE_SETTINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/command_line/spelling.h"

namespace shoal::net {

struct LiveSetting {
  const char* name;
  const char* help;
};

inline constexpr LiveSetting kLiveSettings[] = {
    {"upload", "Cap on all uploads, like 20mbit; off: none"},
    {"download", "Cap on all downloads, like 80mbit; off: none"},
    {"schedule", "When to train, like \"mon-fri 18:00-08:00, sat-sun all\"; always: at any time"},
    {"quiet", "Times with lower caps, like \"08:00-22:00 upload=5mbit\"; off: none"},
    {"budget", "Most bytes in a month, like 300GB/month; off: any"},
    {"exclusive", "Programs beside which to pause, like \"steam, blender\"; off: none"},
    {"on_battery", "pause or train"},
    {"gpu_free", "Pause until no other program used the GPU for so long, like 3m; off: train"},
    {"gpu_power", "Most power of the GPU, like 200W; off: as the driver has it"},
    {"disk", "Most disk space of this peer, like 100GiB; off: any"},
    {"device_memory", "Most memory of the device for the model, like 6GiB; off: what it has"},
};

// What is wrong with a name that is none of them; "": nothing.
inline std::string WrongLiveSetting(std::string_view name) {
  std::vector<std::string> names;
  std::string list;
  for (const LiveSetting& setting : kLiveSettings) {
    if (name == setting.name) return "";
    names.emplace_back(setting.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  return "there is no setting '" + std::string(name) + "'" + DidYouMean(name, names) +
         "; `shoal set` takes " + list;
}

}  // namespace shoal::net

#endif  // SHOAL_NET_CONTROL_LIVE_SETTINGS_H_
