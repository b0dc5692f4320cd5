// DaemonConfig: what shoald.toml, the environment and the command line say, checked. config.cc
// knows TOML; args.cc knows the command line.

#ifndef SHOAL_DAEMON_CONFIG_H_
#define SHOAL_DAEMON_CONFIG_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/units.h"
#include "model/synthetic_stage.h"

namespace shoal::daemon {

inline constexpr const char* kStatusListenDefault = "127.0.0.1:8790";

struct DaemonConfig {
  // [peer]
  std::string name;       // shown to others; default: the machine's name
  std::string directory;  // identity, delta store, checkpoints, cache, socket; default by XDG
  std::string invite;     // shoal1_..., or file:PATH, or empty: wait for `shoal join`
  // [network]
  std::string listen = "0.0.0.0:0";
  std::vector<std::string> advertise;  // hosts or addresses for neighbours; empty: found
  bool map_port = true;                // ask the home's router to lead a port here
  BitsPerSecond upload;                // 0: no cap
  BitsPerSecond download;
  std::string pacing = "auto";  // auto | off
  // [terms], as ApplyTerm reads them
  std::string schedule = "always";
  std::string quiet = "off";
  std::string budget = "off";
  std::string exclusive = "off";
  std::string on_battery = "pause";
  std::string gpu_free = "off";
  std::string gpu_power = "off";
  std::string disk = "off";
  // [limits]
  std::uint64_t delta_store_bytes = 50ull << 30;
  std::uint64_t activation_bytes = 4ull << 30;  // bound on micro-batches in flight
  std::uint64_t device_memory_bytes = 0;        // of the model's tensors; 0: by the device
  // [store]
  std::uint64_t store_memory_bytes = 256ull << 20;
  std::string store_space = "default";  // default | tight
  // [compute]
  std::string device = "auto";  // cpu | cuda | cuda:N | auto
  std::string card = "auto";    // auto | off | the driver's number or PCI bus id
  std::uint32_t threads = 0;    // 0: LibTorch's choice
  std::uint32_t codec_threads = 2;
  // [status]
  std::string status_listen = kStatusListenDefault;
  bool status_allow_remote = false;
  // [log]
  std::string log_level = "info";
  // Command line only.
  // "name", and names of LiveSettings, given by flag: they go before `shoal set`.
  std::set<std::string> typed;
  bool keep = false;       // caps and name of these hold for later starts, too
  std::string trace_file;  // record micro-batch events, write them here on stop
  // Stages compute nothing: for who measures the rest. Such a peer fits a run without weights only.
  std::optional<model::SyntheticOptions> synthetic;
};

// Values over those already in `config`; `name` is for messages. An unknown key, a wrong type or a
// wrong unit is an error with the line, the key and what to write.
Status ParseConfig(std::string_view toml, const std::string& name, DaemonConfig* config);

// The effective values as TOML, each key with a comment. deploy/shoald.toml is this text for the
// defaults.
std::string FormatConfig(const DaemonConfig& config);

// "6GiB": exact, as ParseBytes reads it.
std::string SizeText(std::uint64_t bytes);

// What every setting means, a line each: "limits.activations: Most memory ...".
std::string DescribeSettings();

// Fills what is empty from the machine: name, directory ($XDG_STATE_HOME/shoal).
void FillConfigDefaults(DaemonConfig* config);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CONFIG_H_
