#include "daemon/gpu/gpu_users.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shoal::daemon {
namespace {

// What draws the desktop, as /proc/PID/comm names it.
constexpr std::array<std::string_view, 24> kDesktop = {"Xorg",        "X",
                                                       "Xwayland",    "gnome-shell",
                                                       "mutter",      "mutter-x11-fram",
                                                       "kwin_x11",    "kwin_wayland",
                                                       "plasmashell", "cinnamon",
                                                       "muffin",      "xfwm4",
                                                       "marco",       "compiz",
                                                       "picom",       "sway",
                                                       "Hyprland",    "labwc",
                                                       "weston",      "wayfire",
                                                       "river",       "niri",
                                                       "cosmic-comp", "enlightenment"};

bool Works(const GpuProcess& process) {
  return process.percent ? *process.percent >= kGpuUserPercent
                         : process.memory_bytes >= kGpuUserBytes;
}

}  // namespace

std::string GpuUser(std::span<const GpuProcess> processes, const Machine& machine) {
  std::string user;
  std::pair<std::uint32_t, std::uint64_t> most;
  for (const GpuProcess& process : processes) {
    if (!Works(process)) continue;
    const std::pair takes{process.percent.value_or(0), process.memory_bytes};
    if (!user.empty() && takes <= most) continue;
    const std::string program = machine.OtherProgram(process.pid);
    const bool draws = std::find(kDesktop.begin(), kDesktop.end(), program) != kDesktop.end();
    if (program.empty() || draws) continue;
    user = program;
    most = takes;
  }
  return user;
}

}  // namespace shoal::daemon
