#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <string>

#include "client/verbs/verb.h"
#include "common/command_line/spelling.h"
#include "common/command_line/usage_error.h"

namespace shoal::client {
namespace {

void WordOptions(CLI::App* command, Given* g) {
  command->add_option("verb", g->words, "Verb, like: swarm init")->type_name("VERB");
}

// Of a verb that another program carries out; null: shoal does it.
const char* ProgramOf(const std::string& path) {
  for (const Verb& verb : AllVerbs()) {
    if (verb.path == path) return verb.program;
  }
  return nullptr;
}

// `shoal help swarm init` is `shoal swarm init --help`.
ExitCode HelpNow(Given* g) {
  const CLI::App* command = g->app;
  std::string path;
  for (const std::string& word : g->words) {
    const std::vector<std::string> known = CommandsOf(*command);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return Fail(ExitCode::kUsage, "there is no command '" + word + "'" + DidYouMean(word, known) +
                                        "; see `shoal " + path + (path.empty() ? "" : " ") +
                                        "--help`");
    }
    command = command->get_subcommand(word);
    path += (path.empty() ? "" : " ") + word;
  }
  if (const char* program = ProgramOf(path); program != nullptr) {
    return RunProgram({g->words.back(), "--help"}, program);
  }
  // Not help(), which would show that of this command while it is the one that was parsed.
  std::cout << command->get_formatter()->make_help(
      command, path.empty() ? "shoal" : "shoal " + path, CLI::AppFormatMode::Normal);
  return ExitCode::kOk;
}

}  // namespace

std::vector<Verb> ProgramVerbs() {
  return {{"help", "The help of a verb", WordOptions, HelpNow, "shoal help swarm init"},
          {"version", "Version of the programs",
           [](CLI::App* version, Given* g) {
             version->add_flag("--json", g->json, "Print one JSON object to standard output");
           },
           [](Given* g) { return Version(g->json); }, "shoal version\nshoal version --json"}};
}

}  // namespace shoal::client
