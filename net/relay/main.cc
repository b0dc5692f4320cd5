// shoal-relay: makes peers reachable that stand behind routers, until it is told to stop.

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <tuple>

#include <CLI/CLI.hpp>

#include "common/command_line/delivered.h"
#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"
#include "common/executor.h"
#include "common/exit_code.h"
#include "common/file.h"
#include "common/log.h"
#include "common/process/descriptor_limit.h"
#include "common/process/stop_signal.h"
#include "common/version.h"
#include "net/base/host_port.h"
#include "net/base/local_addresses.h"
#include "net/http/http_server.h"
#include "net/identity/secret_file.h"
#include "net/relay/relay_address.h"
#include "net/relay/relay_server.h"
#include "net/relay/relay_view.h"

namespace shoal::net {
namespace {

struct Flags {
  std::string directory, advertise, log_level = "info", port_file;
  std::string listen = "0.0.0.0:8783", status_listen = "127.0.0.1:8784";
  std::string rate = "off", rate_per_peer = "off";
  std::size_t peers = RelayServerOptions{}.peers_max;
  bool status_allow_remote = false;
};

ExitCode Fail(ExitCode code, const std::string& message) {
  std::cerr << "shoal-relay: " << message << "\n";
  return code;
}

std::string DefaultFolder() {
  for (const auto& [variable, rest] :
       {std::pair{"SHOAL_RELAY_DIR", ""}, std::pair{"STATE_DIRECTORY", ""},
        std::pair{"XDG_STATE_HOME", "/shoal-relay"},
        std::pair{"HOME", "/.local/state/shoal-relay"}}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return std::string(value) + rest;
  }
  return "shoal-relay";
}

// Nothing: go on. Otherwise the exit code of the program.
std::optional<ExitCode> ReadFlags(int argc, char** argv, Flags* flags) {
  CLI::App app(
      "shoal-relay: passes connections of a swarm on to peers behind routers, without reading them",
      "shoal-relay");
  app.add_option("--listen", flags->listen, "host:port that peers reach from outside")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--advertise", flags->advertise,
                 "host or host:port under which peers reach this relay; without it this machine's "
                 "first address")
      ->type_name("HOST");
  app.add_option("--dir", flags->directory,
                 "Folder of the relay's secret, which is made there at the first start")
      ->default_str("$SHOAL_RELAY_DIR, else ~/.local/state/shoal-relay")
      ->type_name(kFolderValue);
  app.add_option("--rate", flags->rate, "Most that passes in all, like 100mbit; off: no cap")
      ->capture_default_str()
      ->type_name("RATE");
  app.add_option("--rate-per-peer", flags->rate_per_peer,
                 "Most that passes to and from one registered peer, like 20mbit; off: no cap")
      ->capture_default_str()
      ->type_name("RATE");
  app.add_option("--peers", flags->peers, "Most peers that may be registered at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--status-listen", flags->status_listen,
                 "host:port of /status and /metrics; off: none")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_flag("--status-allow-remote", flags->status_allow_remote,
               "Let --status-listen be other than loopback");
  app.add_option("--log-level", flags->log_level,
                 "Level of the log: trace, debug, info, warning, error or off")
      ->capture_default_str()
      ->type_name("LEVEL");
  app.add_option("--port-file", flags->port_file, "File to write the port for peers to")
      ->type_name(kFileValue);
  app.set_version_flag("--version", std::string("shoal-relay ") + kVersion);
  app.footer(
      "The organiser puts the line that it prints into [network] relays of run.toml.\n\n"
      "Examples:\n  shoal-relay --advertise relay.example.org --rate 200mbit\n"
      "Exit code: 0 told to stop; 1 failed; 2 wrong usage; 77 not permitted; 78 wrong settings");
  if (PrintedDescription(app, {argv + 1, argv + argc})) return ExitCode::kOk;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error), ExitCode::kOk;
    return Fail(ExitCode::kUsage, UsageError(app, error));
  }
  if (flags->directory.empty()) flags->directory = DefaultFolder();
  return std::nullopt;
}

Result<RelayServerOptions> OptionsOf(const Flags& flags) {
  RelayServerOptions options;
  options.listen = flags.listen;
  options.peers_max = flags.peers;
  for (const auto& [name, text, to] :
       {std::tuple{"--rate", &flags.rate, &options.rate},
        std::tuple{"--rate-per-peer", &flags.rate_per_peer, &options.rate_per_peer}}) {
    const auto rate = ParseRate(*text);
    if (!rate.ok()) return rate.status().WithContext(name);
    *to = *rate;
  }
  SHOAL_RETURN_IF_ERROR(MakeOwnFolder(flags.directory));
  SHOAL_ASSIGN_OR_RETURN(
      options.secret,
      LoadOrCreateSecret(flags.directory + "/relay_secret",
                         "delete it, and give the new line to the organisers that use this relay"));
  return options;
}

// What peers dial.
std::string AddressOf(const Flags& flags, const std::string& secret, std::uint16_t port) {
  std::string host = flags.advertise;
  if (host.empty()) {
    const auto listened = ParseHostPort(flags.listen);
    const bool any = !listened.ok() || listened->host == "0.0.0.0" || listened->host == "::";
    const std::vector<std::string> own = LocalAddresses();
    host = !any ? listened->host : own.empty() ? "127.0.0.1" : own.front();
  }
  const auto whole = ParseHostPort(host);
  const std::string host_port = whole.ok() ? FormatHostPort(*whole) : FormatHostPort({host, port});
  return FormatRelayAddress({secret, host_port});
}

void Greet(const Flags& flags, const std::string& address, const std::string& status_address) {
  std::cout << "relay for shoal, listening on " << flags.listen << "\n";
  if (!status_address.empty()) std::cout << "status: http://" << status_address << "/\n";
  std::cout << "next: in run.toml of a run that shall use it, before its invite is made\n\n"
            << "  [network]\n  relays = [\"" << address << "\"]\n\n"
            << "whoever has this line may use the relay\n"
            << std::endl;
}

ExitCode Serve(const Flags& flags, StopSignal* stop) {
  const auto options = OptionsOf(flags);
  if (!options.ok()) return Fail(ExitCodeForInput(options.status()), options.status().message());
  auto relay = StartRelayServer(*options);
  if (!relay.ok()) return Fail(ExitCodeFor(relay.status()), relay.status().message());
  const std::unique_ptr<Executor> control = NewThreadExecutor("control");
  std::unique_ptr<HttpServer> http;
  if (flags.status_listen != "off") {
    HttpServerOptions status;
    status.listen = flags.status_listen;
    status.allow_remote = flags.status_allow_remote;
    auto opened =
        NewHttpServer(status, control.get(), {[server = relay->get()](const PageRequest& request) {
                        return ServeRelay(request.path, server->stats(), kVersion);
                      }});
    if (!opened.ok()) {
      return Fail(ExitCodeFor(opened.status()), "--status-listen: " + opened.status().message());
    }
    http = *std::move(opened);
  }
  if (!flags.port_file.empty()) {
    const Status written =
        WriteFileAtomic(flags.port_file, std::to_string((*relay)->port()) + "\n");
    if (!written.ok()) return Fail(ExitCode::kFailure, written.message());
  }
  Greet(flags, AddressOf(flags, options->secret, (*relay)->port()),
        http ? http->address() : std::string());
  const Status ended = stop->Wait();
  return ended.ok() ? ExitCode::kOk : Fail(ExitCodeFor(ended), ended.message());
}

ExitCode Main(int argc, char** argv) {
  Flags flags;
  if (const auto code = ReadFlags(argc, argv, &flags)) return Delivered(*code);
  const auto level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return Fail(ExitCode::kUsage, "--log-level: " + level.status().message());
  SetLogLevel(*level);
  StopSignal stop;
  RaiseDescriptorLimit();
  return Serve(flags, &stop);
}

}  // namespace
}  // namespace shoal::net

int main(int argc, char** argv) { return static_cast<int>(shoal::net::Main(argc, argv)); }
