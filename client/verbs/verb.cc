#include "client/verbs/verb.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace shoal::client {
namespace {

const char* MeaningOf(ExitCode code) {
  switch (code) {
    case ExitCode::kOk: return "done";
    case ExitCode::kFailure: return "failed";
    case ExitCode::kUsage: return "wrong usage";
    case ExitCode::kDaemonNotRunning: return "the daemon does not run";
    case ExitCode::kNotMember: return "this peer is in no swarm";
    case ExitCode::kUnreachable: return "the other side cannot be reached";
    case ExitCode::kTryLater: return "what is missing may come back; try again";
    case ExitCode::kPermission: return "not permitted";
    case ExitCode::kBadConfig: return "wrong settings, model or data";
  }
  return "";
}

std::string ExitsOf(const Verb& verb) {
  std::vector<ExitCode> codes = {ExitCode::kOk, ExitCode::kFailure, ExitCode::kUsage};
  codes.insert(codes.end(), verb.exits.begin(), verb.exits.end());
  // What a daemon has is its user's.
  if (std::ranges::count(codes, ExitCode::kDaemonNotRunning) > 0 &&
      std::ranges::count(codes, ExitCode::kPermission) == 0) {
    codes.push_back(ExitCode::kPermission);
  }
  std::ranges::sort(codes);
  std::string text = "Exit code:";
  for (const ExitCode code : codes) {
    text += (code == ExitCode::kOk ? " " : "; ") + std::to_string(static_cast<int>(code)) + " " +
            MeaningOf(code);
  }
  return text;
}

// Below the options of a verb's help.
std::string FooterOf(const Verb& verb) {
  std::string text = verb.notes;
  if (!text.empty()) text += "\n";
  text += "Examples:\n";
  std::string_view rest = verb.examples;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    text += "  " + std::string(rest.substr(0, end)) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text + ExitsOf(verb);
}

void AddVerb(const Verb& verb, CLI::App* app, Given* given) {
  std::string_view path = verb.path;
  for (std::size_t space; (space = path.find(' ')) != std::string_view::npos;) {
    app = app->get_subcommand(std::string(path.substr(0, space)));
    path.remove_prefix(space + 1);
  }
  CLI::App* command = app->add_subcommand(std::string(path), verb.about);
  if (verb.program == nullptr) command->footer(FooterOf(verb));
  if (verb.options != nullptr) verb.options(command, given);
  if (verb.program != nullptr) {
    command->prefix_command();
    command->set_help_flag();
    command->final_callback([given, command, program = verb.program] {
      given->run = [command, program] {
        std::vector<std::string> arguments = {command->get_name()};
        const std::vector<std::string> rest = command->remaining();
        arguments.insert(arguments.end(), rest.begin(), rest.end());
        return RunProgram(arguments, program);
      };
    });
  } else if (verb.run != nullptr) {
    command->final_callback(
        [given, run = verb.run] { given->run = [given, run] { return run(given); }; });
  } else {
    command->require_subcommand(1);
  }
}

}  // namespace

const std::vector<Verb>& AllVerbs() {
  static const std::vector<Verb> all = [] {
    std::vector<Verb> verbs;
    for (auto part :
         {&LabVerbs, &PeerVerbs, &SwarmVerbs, &MachineVerbs, &ModelVerbs, &ProgramVerbs}) {
      std::vector<Verb> rows = part();
      std::move(rows.begin(), rows.end(), std::back_inserter(verbs));
    }
    return verbs;
  }();
  return all;
}

void AddVerbs(CLI::App* app, Given* given) {
  given->app = app;
  for (const Verb& verb : AllVerbs()) AddVerb(verb, app, given);
  // Behind them, so that no verb takes it over.
  app->footer(
      "`shoal help VERB` says what a verb takes, with examples.\n"
      "To measure what a swarm gives over given lines: shoal-bench --help");
}

}  // namespace shoal::client
