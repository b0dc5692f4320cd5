#include <CLI/CLI.hpp>

#include <iostream>

#include "client/service/service.h"
#include "client/service/uninstall.h"
#include "client/verbs/verb.h"
#include "common/command_line/description.h"

namespace shoal::client {
namespace {

void SystemOption(CLI::App* command, Given* g) {
  command->add_flag("--system", g->service.system,
                    "The machine's service, as root and in a sandbox; else that of this user");
}

void AddUnitOptions(CLI::App* command, Given* g) {
  SystemOption(command, g);
  command
      ->add_option("--dir", g->service.directory,
                   "Folder of shoald's state; not given: that of `shoal join`, with --system "
                   "/var/lib/shoal")
      ->type_name(kFolderValue);
  command
      ->add_option("--program", g->service.program,
                   "Full path of shoald; not given: that beside shoal")
      ->type_name(kFileValue);
  command->add_option("--config", g->service.config, "Settings file of shoald")
      ->type_name(kFileValue);
}

void StatusOptions(CLI::App* command, Given* g) {
  SystemOption(command, g);
  command->add_flag("--json", g->service.json, "Print one JSON object to standard output");
}

void UninstallFlags(CLI::App* command, Given* g) {
  command->add_option("--dir", g->peer.directory, "Folder of shoald's state, as of `shoal join`")
      ->type_name(kFolderValue);
  CLI::Option* json =
      command->add_flag("--json", g->peer.json, "Print one JSON object, and remove nothing");
  command->add_flag("--yes", g->yes, "Remove without asking")->excludes(json);
}

ExitCode UninstallNow(Given* g) {
  UninstallOptions options;
  options.directory = g->peer.directory;
  options.json = g->peer.json;
  options.yes = g->yes;
  return Uninstall(
      options, [g] { return PeerRuns(g->peer); }, std::cin);
}

}  // namespace

std::vector<Verb> MachineVerbs() {
  using enum ExitCode;
  return {
      {"service",
       "Let systemd run shoald on this machine",
       {},
       {},
       "shoal service install\nshoal service status"},
      {"service install",
       "Write shoald's unit, and start it now and from now on",
       AddUnitOptions,
       [](Given* g) { return ServiceInstall(g->service); },
       "shoal service install\nsudo shoal service install --system --config /etc/shoal/shoald.toml",
       {kPermission},
       "Where no systemd runs it writes the unit and says what to run."},
      {"service remove",
       "Stop the service and remove its unit; what shoald stored stays",
       SystemOption,
       [](Given* g) { return ServiceRemove(g->service); },
       "shoal service remove\nsudo shoal service remove --system",
       {kPermission}},
      {"service status",
       "Say whether the service is installed and runs",
       StatusOptions,
       [](Given* g) { return ServiceStatus(g->service); },
       "shoal service status\nshoal service status --json",
       {kDaemonNotRunning}},
      {"service unit", "Print shoald's unit", AddUnitOptions,
       [](Given* g) { return ServiceUnit(g->service); }, "shoal service unit --system"},
      {"uninstall", "List all that shoal stored here, and remove it after a yes", UninstallFlags,
       UninstallNow, "shoal uninstall\nshoal uninstall --yes"}};
}

}  // namespace shoal::client
