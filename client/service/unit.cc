#include "client/service/unit.h"

#include <string_view>

namespace shoal::client {
namespace {

constexpr const char* kHead = R"(
[Unit]
Description=shoal peer: trains a part of a language model with others
Documentation=man:shoald(1)
Wants=network-online.target
After=network-online.target nvidia-persistenced.service

[Service]
Type=notify
NotifyAccess=main
)";

// 77 and 78: starting again mends neither rights nor settings. A stage is handed over at the end,
// which takes seconds; a store of many gigabytes opens in minutes.
constexpr const char* kLife = R"(Restart=on-failure
RestartSec=10
RestartPreventExitStatus=77 78
WatchdogSec=120
TimeoutStartSec=600
TimeoutStopSec=60
Nice=10
IOSchedulingClass=idle
UMask=0077
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
)";

// What only the machine's own manager can enforce. GPUs need the rest: their device files, /proc,
// memory that is both written and run (compiled kernels), and modules that load when first used.
// Processes of other users stay visible: `exclusive` and `gpu_free` pause the peer by their names.
constexpr const char* kSandbox = R"(DynamicUser=yes
StateDirectory=shoal
StateDirectoryMode=0700
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RemoveIPC=yes
CapabilityBoundingSet=
AmbientCapabilities=
DevicePolicy=closed
DeviceAllow=char-nvidia rw
DeviceAllow=char-nvidia-uvm rw
DeviceAllow=char-nvidia-caps rw
LimitNOFILE=65536
)";

// A path as a word of ExecStart or Environment: '%' and '$' have meanings there.
std::string Word(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
    if (letter == '%' || letter == '$') quoted += letter;
  }
  return quoted + "\"";
}

}  // namespace

std::string UnitText(const UnitOptions& options) {
  std::string start = "ExecStart=" + Word(options.program);
  const std::string directory =
      options.directory.empty() && options.system ? "/var/lib/shoal" : options.directory;
  if (!directory.empty()) start += " --dir " + Word(directory);
  if (!options.config.empty()) start += " --config " + Word(options.config);
  return std::string(kUnitMark) + kHead + start + "\n" + kLife + (options.system ? kSandbox : "") +
         "\n[Install]\nWantedBy=" + (options.system ? "multi-user.target" : "default.target") +
         "\n";
}

}  // namespace shoal::client
