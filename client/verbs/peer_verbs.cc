#include <CLI/CLI.hpp>

#include <string>
#include <utility>

#include "client/verbs/verb.h"
#include "common/command_line/description.h"
#include "common/units.h"
#include "net/base/host_port.h"
#include "net/control/live_settings.h"

namespace shoal::client {
namespace {

void Folder(CLI::App* command, Given* given) {
  command
      ->add_option("--dir", given->peer.directory,
                   "Folder of shoald's state; not given: $SHOAL_DIR, else shoal in "
                   "$XDG_STATE_HOME or ~/.local/state")
      ->type_name(kFolderValue);
}

void FolderAndJson(CLI::App* command, Given* given) {
  Folder(command, given);
  command->add_flag("--json", given->peer.json, "Print one JSON object to standard output");
}

void JoinOptions(CLI::App* join, Given* g) {
  join->add_option("invite", g->invite, "shoal1_..., file:PATH, or - for standard input")
      ->required()
      ->type_name("INVITE");
  join->add_option("--upload", g->upload, "Cap on uploads, like 20mbit")->type_name("RATE");
  join->add_option("--download", g->download, "Cap on downloads, like 80mbit")->type_name("RATE");
  join->add_option("--name", g->name, "Name of this peer, shown to the organiser")
      ->type_name("NAME");
  join->add_option("--device", g->device, "Where the stage computes: cpu, cuda, cuda:N or auto")
      ->type_name("DEVICE");
  join->add_option("--listen", g->listen, "host:port that neighbours connect to")
      ->type_name("HOST:PORT");
  join->add_option("--status-listen", g->status_listen, "host:port of the status page")
      ->type_name("HOST:PORT");
  join->add_option("--config", g->config, "Settings file of shoald")->type_name(kFileValue);
  join->add_flag("--no-start", g->no_start, "Give the invite to a running shoald; start none");
  Folder(join, g);
}

// What shoald would refuse later, said before anything starts.
std::string WrongJoinOption(const Given& g) {
  for (const auto& [flag, rate] : {std::pair{"--upload", &g.upload}, {"--download", &g.download}}) {
    if (rate->empty()) continue;
    if (const auto parsed = ParseRate(*rate); !parsed.ok()) {
      return std::string(flag) + ": " + parsed.status().message();
    }
  }
  for (const auto& [flag, address] :
       {std::pair{"--listen", &g.listen}, {"--status-listen", &g.status_listen}}) {
    if (address->empty()) continue;
    if (const auto parsed = net::ParseHostPort(*address); !parsed.ok()) {
      return std::string(flag) + ": " + parsed.status().message();
    }
  }
  return "";
}

ExitCode JoinNow(Given* g) {
  if (const std::string wrong = WrongJoinOption(*g); !wrong.empty()) {
    return Fail(ExitCode::kUsage, wrong + "; see `shoal join --help`");
  }
  std::vector<std::string> options;
  const std::pair<const char*, const std::string*> given[] = {
      {"--upload", &g->upload}, {"--download", &g->download},
      {"--name", &g->name},     {"--device", &g->device},
      {"--listen", &g->listen}, {"--status-listen", &g->status_listen},
      {"--config", &g->config}};
  for (const auto& [flag, value] : given) {
    if (!value->empty()) options.insert(options.end(), {flag, *value});
  }
  return Join(g->peer, g->invite, !g->no_start, options);
}

void TopOptions(CLI::App* top, Given* g) {
  top->add_option("--interval", g->interval_s, "Seconds between two refreshes")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->add_option("--rounds", g->rounds, "Refreshes before the end; 0: until q or Ctrl-C")
      ->capture_default_str();
  Folder(top, g);
}

void HandoverOptions(CLI::App* command, Given* g) {
  command->add_flag("--now", g->now,
                    "Do not wait until the run has saved a checkpoint: it may lose the steps since "
                    "the last one");
  Folder(command, g);
}

void PauseOptions(CLI::App* pause, Given* g) {
  pause->add_option("--for", g->lasts, "Take part again by itself after that time, like 2h")
      ->type_name("TIME");
  HandoverOptions(pause, g);
}

ExitCode Order(Given* g, const char* name) {
  std::map<std::string, std::string> arguments;
  if (g->now) arguments["now"] = "true";
  if (!g->lasts.empty()) arguments["for"] = g->lasts;
  return PeerCommand(g->peer, name, arguments);
}

void SetOptions(CLI::App* set, Given* g) {
  std::string help =
      "Settings as key=value; key=default: what the settings file says; none: print them all. "
      "Keys:";
  for (const net::LiveSetting& setting : net::kLiveSettings) {
    help += std::string(" ") + setting.name + " (" + setting.help + ")";
  }
  set->add_option("settings", g->settings, help)->type_name(kSettingValue);
  set->add_option("--for", g->lasts, "Go back to what held before after that time, like 8h")
      ->type_name("TIME");
  Folder(set, g);
}

ExitCode SetNow(Given* g) {
  std::map<std::string, std::string> values;
  if (g->settings.empty()) {
    if (g->lasts.empty()) return Settings(g->peer);
    return Fail(ExitCode::kUsage, "--for " + g->lasts + " of what? try upload=5mbit --for 8h");
  }
  for (const std::string& setting : g->settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return Fail(ExitCode::kUsage, "'" + setting + "' is not key=value; try upload=20mbit");
    }
    const std::string key = setting.substr(0, equals);
    if (const std::string wrong = net::WrongLiveSetting(key); !wrong.empty()) {
      return Fail(ExitCode::kUsage, wrong);
    }
    values[key] = setting.substr(equals + 1);
  }
  if (!g->lasts.empty()) values["for"] = g->lasts;
  return PeerCommand(g->peer, "set", values);
}

void LogsOptions(CLI::App* logs, Given* g) {
  logs->add_option("-n,--lines", g->lines, "Number of lines, from the end")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  CLI::Option* follow =
      logs->add_flag("-f,--follow", g->follow, "Keep printing new lines until Ctrl-C");
  FolderAndJson(logs, g);
  logs->get_option("--json")->excludes(follow);
}

void DropOptions(CLI::App* drop, Given* g) {
  CLI::Option* all = drop->add_flag("--all", g->store_all, "Drop all runs");
  drop->add_option("--run", g->store_run, "Id of the run to drop: 16 hexadecimal digits")
      ->type_name("RUN")
      ->excludes(all);
  FolderAndJson(drop, g);
}

ExitCode DropNow(Given* g) {
  if (g->store_run.empty() && !g->store_all) {
    return Fail(ExitCode::kUsage,
                "which records? give --run RUN (see `shoal store stats`) or --all");
  }
  return StoreCommand(g->peer, "drop",
                      g->store_all ? std::vector<std::string>{"--all"}
                                   : std::vector<std::string>{"--run", g->store_run});
}

std::vector<Verb> StoreVerbs() {
  return {
      {"store",
       "Look into the delta store of this machine's peer while shoald is stopped",
       {},
       {},
       "shoal store stats\nshoal store verify"},
      {"store stats", "Print what the delta store holds, by run and boundary", FolderAndJson,
       [](Given* g) { return StoreCommand(g->peer, "stats", {}); },
       "shoal store stats\nshoal store stats --json"},
      {"store verify", "Read every record of the delta store and drop damaged ones", FolderAndJson,
       [](Given* g) { return StoreCommand(g->peer, "verify", {}); }, "shoal store verify"},
      {"store compact", "Free the disk space that no record uses", FolderAndJson,
       [](Given* g) { return StoreCommand(g->peer, "compact", {}); }, "shoal store compact"},
      {"store drop", "Drop records and checkpoints of one run, or of all runs", DropOptions,
       DropNow, "shoal store drop --run 0123456789abcdef\nshoal store drop --all"}};
}

// What this machine's owner orders.
std::vector<Verb> OrderVerbs() {
  using enum ExitCode;
  return {{"pause",
           "Give this peer's stage back and rest until `shoal resume`",
           PauseOptions,
           [](Given* g) { return Order(g, "pause"); },
           "shoal pause\nshoal pause --for 2h\nshoal pause --now",
           {kDaemonNotRunning, kNotMember}},
          {"resume",
           "End a pause: take part in the run again",
           Folder,
           [](Given* g) { return Order(g, "resume"); },
           "shoal resume",
           {kDaemonNotRunning, kNotMember}},
          {"finish",
           "Hand this peer's stage over, then stop shoald; it stays a member of the swarm",
           HandoverOptions,
           [](Given* g) { return Order(g, "finish"); },
           "shoal finish\nshoal finish --now",
           {kDaemonNotRunning}},
          {"stats",
           "Show what taking part has cost this machine, by day",
           FolderAndJson,
           [](Given* g) { return Stats(g->peer); },
           "shoal stats\nshoal stats --json",
           {kDaemonNotRunning}},
          {"page",
           "Print the link to this peer's page in a browser, where settings may be changed",
           FolderAndJson,
           [](Given* g) { return PageLink(g->peer); },
           "shoal page\nshoal page --json | jq -r .url",
           {kDaemonNotRunning},
           "The link works on this machine until shoald starts again. Who has it may change the "
           "settings: do not share it. Without what is behind # the page only shows."},
          {"leave",
           "Leave the swarm for good and stop shoald",
           HandoverOptions,
           [](Given* g) { return Order(g, "leave"); },
           "shoal leave\nshoal leave --now",
           {kDaemonNotRunning}}};
}

}  // namespace

std::vector<Verb> PeerVerbs() {
  using enum ExitCode;
  std::vector<Verb> verbs = {
      {"join",
       "Join a swarm with an invite line",
       JoinOptions,
       JoinNow,
       "shoal join shoal1_... --upload 20mbit --download 80mbit\n"
       "shoal join file:invite.txt --device cuda:1\n"
       "shoal join - --no-start <invite.txt",
       {kDaemonNotRunning, kPermission, kBadConfig},
       "Starts shoald in this terminal; one that runs already gets the invite."},
      {"status",
       "Show what this machine's peer does",
       FolderAndJson,
       [](Given* g) { return PeerStatus(g->peer); },
       "shoal status\nshoal status --json | jq .swarm.step",
       {kDaemonNotRunning}},
      {"top",
       "Watch this machine's peer on the whole terminal until q or Ctrl-C",
       TopOptions,
       [](Given* g) { return Top(g->peer, g->interval_s, g->rounds); },
       "shoal top\nshoal top --interval 5",
       {kDaemonNotRunning},
       "Arrows scroll. Where standard output is no terminal it prints what `shoal status` does."}};
  for (Verb& verb : OrderVerbs()) verbs.push_back(std::move(verb));
  const std::vector<Verb> others = {
      {"set",
       "Change on which terms this peer takes part: upload=20mbit, schedule=...; or print them",
       SetOptions,
       SetNow,
       "shoal set\nshoal set upload=5mbit\nshoal set upload=20mbit download=off --for 8h\n"
       "shoal set schedule=\"mon-fri 18:00-08:00, sat-sun all\"\nshoal set schedule=default",
       {kDaemonNotRunning}},
      {"logs",
       "Print shoald's log",
       LogsOptions,
       [](Given* g) { return Logs(g->peer, g->lines, g->follow); },
       "shoal logs -n 200\nshoal logs --follow\nshoal logs --json",
       {kDaemonNotRunning}},
      {"health",
       "Exit with 0 if shoald answers (for health checks)",
       FolderAndJson,
       [](Given* g) { return Health(g->peer); },
       "shoal health",
       {kDaemonNotRunning}},
      {"netcheck",
       "Say how others reach this machine's peer: addresses, router, relays, line",
       FolderAndJson,
       [](Given* g) { return Netcheck(g->peer); },
       "shoal netcheck\nshoal netcheck --json | jq .verdict",
       {kDaemonNotRunning}},
      {"doctor", "Check this machine and say what to mend", FolderAndJson,
       [](Given* g) { return Doctor(g->peer); }, "shoal doctor\nshoal doctor --json"}};
  verbs.insert(verbs.end(), others.begin(), others.end());
  for (Verb& verb : StoreVerbs()) verbs.push_back(std::move(verb));
  return verbs;
}

}  // namespace shoal::client
