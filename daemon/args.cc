#include "daemon/args.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/version.h"
#include "daemon/settings_overlay.h"
#include "daemon/tools/synthetic_file.h"
#include "net/control/live_settings.h"

namespace shoal::daemon {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20;

// What was given by flag or environment variable; empty: not given.
struct Flags {
  std::string config, join, directory, name, listen, advertise, upload, download, device,
      device_memory, on_battery, status_listen, log_level, trace, synthetic;
  std::uint32_t threads = 0;
  bool print_config = false, print_devices = false, print_usage = false;
  bool keep = false, status_allow_remote = false;
};

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("--config", flags->config, "Settings file (TOML)")
      ->type_name(kFileValue)
      ->envname("SHOAL_CONFIG");
  app->add_option("--join", flags->join, "Invite line, or file:PATH")
      ->type_name("INVITE")
      ->envname("SHOAL_INVITE");
  app->add_option("--dir", flags->directory,
                  "Folder of identity, delta store, checkpoints and cache")
      ->type_name(kFolderValue)
      ->envname("SHOAL_DIR");
  app->add_option("--name", flags->name, "Name of this peer, shown to the organiser")
      ->type_name("NAME")
      ->envname("SHOAL_NAME");
  app->add_option("--listen", flags->listen,
                  "host:port where neighbours connect; port 0: any free one")
      ->type_name("HOST:PORT")
      ->envname("SHOAL_LISTEN");
  app->add_option("--advertise", flags->advertise, "Host or host:port that neighbours can reach")
      ->type_name("HOST")
      ->envname("SHOAL_ADVERTISE");
  app->add_option("--upload", flags->upload, "Cap on uploads, like 20mbit")
      ->type_name("RATE")
      ->envname("SHOAL_UPLOAD");
  app->add_option("--download", flags->download, "Cap on downloads, like 80mbit")
      ->type_name("RATE")
      ->envname("SHOAL_DOWNLOAD");
  app->add_flag("--keep", flags->keep,
                "Keep --upload, --download and --name for later starts, as `shoal set` does");
  app->add_option("--device", flags->device, "Device of the model: cpu, cuda, cuda:N or auto")
      ->type_name("DEVICE")
      ->envname("SHOAL_DEVICE");
  app->add_option("--device-memory", flags->device_memory,
                  "Most memory of the device for the model, like 10GiB")
      ->type_name("SIZE")
      ->envname("SHOAL_DEVICE_MEMORY");
  app->add_option("--on-battery", flags->on_battery, "On battery: pause or train");
  app->add_option("--threads", flags->threads, "Threads of the model; 0: one per core")
      ->envname("SHOAL_THREADS");
  app->add_option("--status-listen", flags->status_listen, "host:port of status page and metrics")
      ->type_name("HOST:PORT")
      ->envname("SHOAL_STATUS_LISTEN");
  app->add_flag("--status-allow-remote", flags->status_allow_remote,
                "Let --status-listen be an address other than loopback")
      ->envname("SHOAL_STATUS_ALLOW_REMOTE");
  app->add_option("--log-level", flags->log_level,
                  "Level of the log: trace, debug, info, warning, error or off")
      ->envname("SHOAL_LOG_LEVEL");
  app->add_option("--trace", flags->trace,
                  "File for a trace of micro-batches (Perfetto), written when shoald stops")
      ->type_name(kFileValue);
  app->add_option("--synthetic-stage", flags->synthetic,
                  "File with the times that a stage waits instead of computing (benches)")
      ->group("");  // not for people
  app->add_flag("--print-config", flags->print_config, "Print the effective settings and end");
  app->add_flag("--print-devices", flags->print_devices,
                "Print which devices this build can use, as JSON, and end");
  app->add_flag("--print-usage", flags->print_usage,
                "Print what taking part has cost so far, as JSON, and end");
}

Status Apply(const Flags& flags, DaemonConfig* config) {
  if (!flags.config.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.config, kConfigBytesMax));
    SHOAL_RETURN_IF_ERROR(ParseConfig(text, flags.config, config));
  }
  const std::pair<const std::string*, std::string*> texts[] = {
      {&flags.join, &config->invite},
      {&flags.directory, &config->directory},
      {&flags.name, &config->name},
      {&flags.listen, &config->listen},
      {&flags.device, &config->device},
      {&flags.on_battery, &config->on_battery},
      {&flags.status_listen, &config->status_listen},
      {&flags.log_level, &config->log_level},
      {&flags.trace, &config->trace_file}};
  for (const auto& [from, to] : texts) {
    if (!from->empty()) *to = *from;
  }
  if (!flags.advertise.empty()) config->advertise = {flags.advertise};
  if (flags.status_allow_remote) config->status_allow_remote = true;
  if (!flags.synthetic.empty()) {
    SHOAL_ASSIGN_OR_RETURN(config->synthetic, ReadSyntheticFile(flags.synthetic));
  }
  if (flags.threads > 0) config->threads = flags.threads;
  if (!flags.upload.empty()) {
    const Result<BitsPerSecond> rate = ParseRate(flags.upload);
    if (!rate.ok()) return rate.status().WithContext("--upload");
    config->upload = *rate;
  }
  if (!flags.download.empty()) {
    const Result<BitsPerSecond> rate = ParseRate(flags.download);
    if (!rate.ok()) return rate.status().WithContext("--download");
    config->download = *rate;
  }
  if (!flags.device_memory.empty()) {
    const Result<std::uint64_t> bytes = ParseBytes(flags.device_memory);
    if (!bytes.ok()) return bytes.status().WithContext("--device-memory");
    if (*bytes == 0) return InvalidArgument("--device-memory must be more than 0");
    config->device_memory_bytes = *bytes;
  }
  SHOAL_RETURN_IF_ERROR(ParseConfig("", "settings", config));  // checks the values together
  SHOAL_ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(config->log_level));
  SetLogLevel(level);
  FillConfigDefaults(config);
  return Status::Ok();
}

// Whether a flag is on the command line itself: CLI11 counts environment variables alike.
bool Typed(int argc, char** argv, const std::string& flag) {
  return std::any_of(argv + 1, argv + argc, [&flag](const char* argument) {
    return argument == flag || std::string_view(argument).starts_with(flag + "=");
  });
}

}  // namespace

std::optional<Args> ReadArgs(int argc, char** argv, ExitCode* exit_code) {
  CLI::App app{"shoald: hosts one stage of a model that a swarm trains together", "shoald"};
  app.set_version_flag("--version", std::string("shoald ") + kVersion);
  Flags flags;
  AddFlags(&app, &flags);
  app.footer(
      "Examples:\n  shoald --join file:invite.txt --upload 20mbit\n  shoald --config shoald.toml\n"
      "Exit code: 0 told to stop; 1 failed; 2 wrong usage; 75 the GPU is lost; 77 not permitted;\n"
      "           78 wrong settings\n\n"
      "Settings in the file of --config (--print-config prints it, with the values):\n" +
      DescribeSettings());
  if (PrintedDescription(app, {argv + 1, argv + argc})) return std::nullopt;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error), std::nullopt;
    std::cerr << "shoald: " << UsageError(app, error) << "\n";
    *exit_code = ExitCode::kUsage;
    return std::nullopt;
  }
  Args args;
  for (const net::LiveSetting& setting : net::kLiveSettings) {
    if (Typed(argc, argv, FlagOf(setting.name))) args.config.typed.emplace(setting.name);
  }
  if (Typed(argc, argv, "--name")) args.config.typed.emplace("name");
  if (Status status = Apply(flags, &args.config); !status.ok()) {
    std::cerr << "shoald: " << status.message() << "\n";
    *exit_code = ExitCode::kBadConfig;
    return std::nullopt;
  }
  args.config.keep = flags.keep;
  args.print_config = flags.print_config;
  args.print_devices = flags.print_devices;
  args.print_usage = flags.print_usage;
  return args;
}

}  // namespace shoal::daemon
