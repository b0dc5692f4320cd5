// The verbs of `shoal`: one row each. The command line, its help, the completions of shells and the
// man pages are made of these rows.

#ifndef SHOAL_CLIENT_VERBS_VERB_H_
#define SHOAL_CLIENT_VERBS_VERB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/chaos_options.h"
#include "client/commands.h"
#include "client/demo_options.h"
#include "client/service/service.h"
#include "common/exit_code.h"

namespace CLI {
class App;
}

namespace shoal::client {

// Everything that options write into; lives as long as the parse.
struct Given {
  const CLI::App* app = nullptr;  // of all verbs
  Target peer, swarm;
  DemoOptions demo;
  ChaosOptions chaos;
  SwarmInitOptions init;
  SwarmRestoreOptions restore;
  ServiceOptions service;
  std::string export_as, export_dtype, export_type;
  std::string invite, upload, download, name, device, listen, status_listen, config, export_path,
      expires = "7d", id, invite_name, kick_reason, lasts, shell, store_run;
  std::vector<std::string> settings, words;
  std::optional<std::uint64_t> sample;
  std::uint64_t last = 0, uses = 1;
  int lines = 50, rounds = 0;
  double interval_s = 1;
  bool follow = false, json = false, no_start = false, yes = false, store_all = false, now = false,
       standing = false, members_too = false, undo = false;
  std::function<ExitCode()> run;  // of the verb that was given
};

struct Verb {
  const char* path;                         // the words behind `shoal`: "swarm audit"
  const char* about;                        // one line
  void (*options)(CLI::App*, Given*) = {};  // declares them; may be null
  ExitCode (*run)(Given*) = {};             // null: verbs follow, or `program` does it
  const char* examples = "";                // one a line, each with `shoal`
  std::vector<ExitCode> exits = {};         // those with a meaning of their own here
  const char* notes = "";                   // what else helps; may be ""
  // A sibling program that gets the last word of `path` and all further arguments unread, so that
  // its own help and messages hold.
  const char* program = nullptr;
};

// Rows by who needs them, in the order of the help.
std::vector<Verb> LabVerbs();      // swarms on this machine
std::vector<Verb> PeerVerbs();     // this machine's peer, and its delta store
std::vector<Verb> SwarmVerbs();    // a run, on the scheduler's machine
std::vector<Verb> MachineVerbs();  // shoald as a service, and the end of all
std::vector<Verb> ModelVerbs();    // models and data
std::vector<Verb> ProgramVerbs();  // help and the like

// Adds all of them to a program without commands, which must live as long as `given`.
void AddVerbs(CLI::App* app, Given* given);
const std::vector<Verb>& AllVerbs();

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_VERBS_VERB_H_
